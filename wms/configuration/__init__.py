"""The configuration as one YAML file: validated whole, applied in one transaction, exported again."""
