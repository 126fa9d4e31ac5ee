"""Ask questions: prompts from templates, and ablations of their images."""
