//! Why a question of the page has no answer, or an act was not carried out.

/// Why there is no answer.
pub enum Refused {
    /// What is asked for is not there.
    Unknown(String),
    /// What is asked for is not possible, or not as it is asked for.
    Wrong(String),
    /// It was meant for a run that has moved on.
    Moved(String),
    Failed(String),
}
