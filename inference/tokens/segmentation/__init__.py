"""From ids and the roles of the delimiters among them to segments that tile them."""
