"""The members of each module that a script can import: one function for each module returns them."""
