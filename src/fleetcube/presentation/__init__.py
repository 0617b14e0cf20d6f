"""What people see: tables, pictures, pages."""
