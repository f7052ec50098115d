//! Tool names as the model APIs accept them, and the way back.

use std::collections::{HashMap, HashSet};

/// The stricter of the two APIs' limits.
const LONGEST: usize = 64;

/// A two-way map between MCP tool names and the names told to the model.
///
/// A name that the APIs accept stays as it is, whatever else is in the list. In others every refused character
/// becomes `_`, and a number keeps two of them apart. The same list always gives the same names.
#[derive(Debug, Default)]
pub struct ToolNames {
    to_wire: HashMap<String, String>,
    from_wire: HashMap<String, String>,
}

fn accepted(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn valid(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(accepted)
}

impl ToolNames {
    pub fn new<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut this = Self::default();
        let mut taken: HashSet<String> = names.clone().filter(|name| valid(name)).map(str::to_owned).collect();
        for name in names {
            let wire = if valid(name) { name.to_owned() } else { free_name(name, &mut taken) };
            this.from_wire.insert(wire.clone(), name.to_owned());
            this.to_wire.insert(name.to_owned(), wire);
        }
        this
    }

    /// The name to tell the model.
    pub fn wire<'a>(&'a self, name: &'a str) -> &'a str {
        self.to_wire.get(name).map_or(name, String::as_str)
    }

    /// The MCP name of what the model called; a model that writes the MCP name itself is understood too.
    pub fn original<'a>(&'a self, called: &'a str) -> Option<&'a str> {
        match self.from_wire.get(called) {
            Some(name) => Some(name),
            None => self.to_wire.get_key_value(called).map(|(name, _)| name.as_str()),
        }
    }
}

fn free_name(name: &str, taken: &mut HashSet<String>) -> String {
    let mut base: String = name.chars().map(|c| if accepted(c) { c } else { '_' }).take(LONGEST).collect();
    if base.is_empty() {
        base.push_str("tool");
    }
    let mut wire = base.clone();
    let mut number = 2;
    while !taken.insert(wire.clone()) {
        let ending = format!("_{number}");
        wire = format!("{}{ending}", &base[..base.len().min(LONGEST - ending.len())]);
        number += 1;
    }
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_characters_are_mapped_and_found_again() {
        let long = "a".repeat(70);
        let names = ["module.states", "module_states", "state_get", "module/states", "zähler", &long];
        let map = ToolNames::new(names.iter().copied());
        assert_eq!(map.wire("state_get"), "state_get");
        assert_eq!(map.wire("module_states"), "module_states", "a valid name is never changed");
        assert_eq!(map.wire("module.states"), "module_states_2");
        assert_eq!(map.wire("module/states"), "module_states_3");
        assert_eq!(map.wire("zähler"), "z_hler");
        for name in names {
            assert!(valid(map.wire(name)), "{name}");
            assert_eq!(map.original(map.wire(name)), Some(name));
        }
        assert_eq!(map.original("module.states"), Some("module.states"));
        assert_eq!(map.original("absent"), None);
    }
}
