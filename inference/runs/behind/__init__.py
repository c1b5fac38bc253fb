"""What is done behind the runs: the checks that read, those over all samples, and segments and flags made again."""
