//! x
pub fn scram_verifier(_p: &str, _i: u32) -> String {
    String::new()
}
