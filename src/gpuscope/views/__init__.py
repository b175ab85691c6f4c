"""What people see: terminal, JSON document, HTML report, in English and Chinese."""
