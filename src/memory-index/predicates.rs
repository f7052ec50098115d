//! The words in which facts are put: their plain form, their other names, and what kind of fact they make.

/// A predicate that every household begins with.
pub struct Seed {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub edge: bool,
    pub temporal: bool,
    pub many: bool,
}

const fn value(name: &'static str, aliases: &'static [&'static str]) -> Seed {
    Seed { name, aliases, edge: false, temporal: false, many: false }
}
const fn several(name: &'static str, aliases: &'static [&'static str]) -> Seed {
    Seed { name, aliases, edge: false, temporal: false, many: true }
}
const fn edge(name: &'static str, aliases: &'static [&'static str]) -> Seed {
    Seed { name, aliases, edge: true, temporal: false, many: true }
}
const fn event(name: &'static str, aliases: &'static [&'static str]) -> Seed {
    Seed { name, aliases, edge: false, temporal: true, many: true }
}

/// What a tenant's table says goes before it.
pub const SEEDS: &[Seed] = &[
    value("lives_in", &["home", "residence", "resides_in", "home_city", "lives_at"]),
    value("birthday", &["date_of_birth", "birth_date", "born_on", "dob"]),
    value("age", &[]),
    value("height", &[]),
    value("gender", &[]),
    value("nationality", &["citizenship"]),
    value("nickname", &["goes_by"]),
    value("occupation", &["profession", "job", "job_title"]),
    value("marital_status", &["relationship_status"]),
    value("time_zone", &["timezone"]),
    value("diet", &["dietary_preference"]),
    value("blood_type", &["blood_group"]),
    value("favorite_color", &["favourite_color", "favourite_colour", "favorite_colour"]),
    value("favorite_food", &["favourite_food"]),
    value("status", &[]),
    value("goal_weight", &["target_weight"]),
    several("likes", &["enjoys", "loves", "interest", "interested_in"]),
    several("dislikes", &["hates"]),
    several("hobby", &["hobbies"]),
    several("allergy", &["allergic_to", "allergies"]),
    several("condition", &["medical_condition", "diagnosis", "diagnosed_with"]),
    several("medication", &["takes_medication", "medications"]),
    several("speaks", &["language", "speaks_language", "languages"]),
    several("skill", &["skills", "skilled_in"]),
    several("owns", &["has_item", "possession"]),
    several("pet", &["has_pet", "pets"]),
    several("goal", &["goals", "wants_to"]),
    several("plan", &["plans", "plans_to"]),
    several("note", &["notes", "remark"]),
    several("habit", &["habits", "routine"]),
    several("subscription", &["subscribes_to", "subscriptions"]),
    several("visited", &["has_visited"]),
    several("child", &["children", "has_child", "kids"]),
    several("decision", &[]),
    several("learning", &[]),
    several("context", &[]),
    edge("parent_of", &[]),
    edge("child_of", &[]),
    edge("sibling_of", &["brother_of", "sister_of"]),
    edge("married_to", &["spouse", "spouse_of", "wife_of", "husband_of"]),
    edge("partner_of", &["partner"]),
    edge("friend_of", &["friends_with", "friend"]),
    edge("colleague_of", &["coworker_of", "works_with"]),
    edge("neighbour_of", &["neighbor_of"]),
    edge("works_at", &["works_for", "employer", "employed_by"]),
    edge("studies_at", &["attends"]),
    edge("member_of", &["belongs_to"]),
    edge("manages", &["boss_of"]),
    edge("knows", &[]),
    edge("located_in", &[]),
    event("met", &["meeting", "met_with"]),
    event("meal", &["ate", "meal_breakfast", "meal_lunch", "meal_dinner", "meal_snack"]),
    event("weight", &["weighed", "weight_kg"]),
    event("symptom", &["symptoms"]),
    event("measurement", &["measured"]),
    event("medication_dose", &["took_medication"]),
    event("workout", &["exercised"]),
    event("transaction", &["paid", "purchase"]),
    event("interaction", &["called", "talked_to"]),
    event("event", &["happened"]),
    event("trip", &["travelled_to"]),
    event("life_event", &["milestone"]),
];

/// The other names of a predicate that every household begins with.
pub fn aliases(name: &str) -> &'static [&'static str] {
    SEEDS.iter().find(|s| s.name == name).map_or(&[], |s| s.aliases)
}

/// A tenant's own predicate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TenantPredicate {
    pub name: String,
    pub aliases: Vec<String>,
    pub edge: bool,
    pub temporal: bool,
    pub many: bool,
}

/// What is known of the predicate of a fact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Predicate {
    pub name: String,
    pub edge: bool,
    pub temporal: bool,
    pub many: bool,
    /// It is in no list, but this one is, which is written nearly alike.
    pub suggestion: Option<String>,
}

/// `Lives In` is `lives_in`. `None`: there is no word in it.
pub fn snake_case(given: &str) -> Option<String> {
    let mut out = String::new();
    let mut lower = false;
    for c in given.trim().chars() {
        if !c.is_alphanumeric() {
            if c != '\'' && !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
            lower = false;
            continue;
        }
        if c.is_uppercase() && lower {
            out.push('_');
        }
        lower = c.is_lowercase() || c.is_ascii_digit();
        out.extend(c.to_lowercase().map(plain));
    }
    out.truncate(out.trim_end_matches('_').len());
    let right = out.starts_with(|c: char| c.is_ascii_lowercase())
        && out.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    (right && out.len() <= 64).then_some(out)
}

fn plain(c: char) -> char {
    match c {
        'à'..='å' => 'a',
        'è'..='ë' => 'e',
        'ì'..='ï' => 'i',
        'ò'..='ö' | 'ø' => 'o',
        'ù'..='ü' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        c => c,
    }
}

/// The predicate that `name`, in its plain form, stands for; the tenant's own go before the seeds.
pub fn resolve(name: &str, own: &[TenantPredicate]) -> Predicate {
    let predicate = |name: &str, edge, temporal, many| {
        let name = name.to_owned();
        Predicate { name, edge, temporal, many, suggestion: None }
    };
    let of = |k: &TenantPredicate| predicate(&k.name, k.edge, k.temporal, k.many);
    let seed = |s: &Seed| predicate(s.name, s.edge, s.temporal, s.many);
    let alias = |k: &&TenantPredicate| k.aliases.iter().any(|a| a == name);
    if let Some(known) = own.iter().find(|k| k.name == name).or_else(|| own.iter().find(alias)) {
        return of(known);
    }
    if let Some(s) = SEEDS.iter().find(|s| s.name == name).or_else(|| SEEDS.iter().find(|s| s.aliases.contains(&name)))
    {
        return own.iter().find(|k| k.name == s.name).map_or_else(|| seed(s), of);
    }
    let names = own.iter().map(|k| k.name.as_str()).chain(SEEDS.iter().map(|s| s.name));
    let near = (name.len() >= 4)
        .then(|| names.map(|n| (distance(name, n), n)).filter(|(d, n)| *d <= 2 && n.len() >= 4).min())
        .flatten();
    Predicate { suggestion: near.map(|(_, n)| n.to_owned()), ..predicate(name, false, false, false) }
}

/// How many letters must be changed, added or taken away; 3 stands for more than 2.
pub fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return 3;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()].min(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_have_one_form_and_one_name() {
        assert_eq!(snake_case("Lives In").as_deref(), Some("lives_in"));
        assert_eq!(snake_case("favoriteColor").as_deref(), Some("favorite_color"));
        assert_eq!(snake_case(" --- "), None);
        assert_eq!(snake_case("3rd"), None);
        assert_eq!(resolve("residence", &[]).name, "lives_in");
        assert_eq!(resolve("lifes_in", &[]).suggestion.as_deref(), Some("lives_in"));
        assert_eq!(resolve("shoe_size", &[]).suggestion, None);
        assert!(resolve("likes", &[]).many);
        let own = [TenantPredicate { name: "likes".into(), aliases: vec!["digs".into()], ..Default::default() }];
        assert!(!resolve("digs", &own).many);
    }

    #[test]
    fn every_seed_is_named_once() {
        let mut seen = std::collections::BTreeSet::new();
        for name in SEEDS.iter().flat_map(|s| std::iter::once(&s.name).chain(s.aliases)) {
            assert!(seen.insert(name), "{name} twice");
            assert_eq!(snake_case(name).as_deref(), Some(*name));
        }
    }

    #[test]
    fn distances_are_those_of_letters() {
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("abc", "abd"), 1);
        assert_eq!(distance("abc", "bc"), 1);
        assert_eq!(distance("abcdef", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
