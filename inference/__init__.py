"""From prompts to exact tokens: prompts → tokens → backends → quality → runs → review → export, in that order of flow."""
