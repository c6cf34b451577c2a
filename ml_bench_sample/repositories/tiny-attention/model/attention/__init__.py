"""One attention layer per module; module and class have the same name."""
