"""What several packages of the tests share."""
