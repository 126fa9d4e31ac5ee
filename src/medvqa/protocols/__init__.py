"""How a question is asked: prompts from templates, and what an ablation takes away from its images."""
