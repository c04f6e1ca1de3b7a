"""Nodes on Amazon EC2. The only package that imports boto3; nothing outside of it imports it before it is asked for."""
