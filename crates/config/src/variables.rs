//! Where the values of variables come from, and which parts of a config may use which of them.
//!
//! Variables that somebody else may have set are used only for API keys and other secrets. They determine no endpoint,
//! path, program or argument. The caller decides which variables are the user's own; this module decides which places
//! of a config may use the others.

use althing_protocol::names_only_a_secret;

/// Looks up the value of a variable.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where the values of variables come from.
#[derive(Clone, Copy)]
pub struct Variables<'a> {
    /// The user's own variables.
    pub own: &'a dyn Fn(&str) -> Option<String>,
    /// The user's own variables, and those that somebody else may have set.
    pub for_secrets: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Variables<'a> {
    /// Treats all variables as the user's own.
    pub fn all_own(own: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { own, for_secrets: own }
    }

    /// The lookup that applies to a place.
    pub(crate) fn at(&self, place: Place) -> Lookup<'a> {
        match place {
            Place::Secret => self.for_secrets,
            Place::NamedValues | Place::Other => self.own,
        }
    }
}

impl std::fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

/// The kinds of places in a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A value that is meant to be a secret.
    Secret,
    /// A map of variables or headers. The name of each entry decides whether its value is a secret.
    NamedValues,
    /// Anything else.
    Other,
}

impl Place {
    /// The place of the value of `key`, if the key itself is in a map at this place.
    pub(crate) fn of(self, key: &str) -> Self {
        match key {
            _ if self == Self::NamedValues && names_only_a_secret(key) => Self::Secret,
            _ if self == Self::NamedValues => Self::Other,
            "api_key" => Self::Secret,
            "env" | "headers" | "default_headers" | "extra_headers" => Self::NamedValues,
            _ => Self::Other,
        }
    }
}
