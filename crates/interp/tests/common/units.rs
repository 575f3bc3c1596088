//! Units of the tests.
