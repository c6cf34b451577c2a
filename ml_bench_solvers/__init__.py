"""What produces candidates: prompts, retrieval, generation."""
