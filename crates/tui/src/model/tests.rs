//! Folds of hand-made events.
