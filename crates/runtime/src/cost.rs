//! What agents, reviews and turns have cost, as far as anybody has told. A client that does not know says nothing, or
//! 0: that is not what it has cost.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// A sum of costs, of which some may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// What is known of it, in millionths of a dollar.
    pub micro_dollars: u64,
    /// How many parts of it nobody has told.
    pub untold: u64,
}

impl Cost {
    /// What was told of one agent, review or turn.
    pub fn told(micro_dollars: u64) -> Cost {
        Cost { micro_dollars, untold: u64::from(micro_dollars == 0) }
    }

    /// What is known of it in dollars, to the cent, for programs; none where nothing is.
    #[expect(clippy::cast_precision_loss, reason = "a millionth of a dollar does not matter")]
    pub fn dollars(self) -> Option<f64> {
        (self.micro_dollars > 0).then(|| (self.micro_dollars as f64 / 1e4).round() / 1e2)
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            micro_dollars: self.micro_dollars.saturating_add(other.micro_dollars),
            untold: self.untold.saturating_add(other.untold),
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Cost>>(costs: I) -> Cost {
        costs.fold(Cost::default(), Cost::add)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match (self.dollars(), self.untold) {
            (None, 0) => out.write_str("none"),
            (None, _) => out.write_str("unknown"),
            (Some(dollars), 0) => write!(out, "${dollars:.2}"),
            (Some(dollars), _) => write!(out, "${dollars:.2} and an unknown part"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_told_is_not_nothing() {
        let (told, untold) = (Cost::told(1_250_000), Cost::told(0));
        assert_eq!((told.to_string(), told.dollars()), ("$1.25".into(), Some(1.25)));
        assert_eq!((untold.to_string(), untold.dollars()), ("unknown".into(), None));
        let both: Cost = [told, untold, told].into_iter().sum();
        assert_eq!(both.to_string(), "$2.50 and an unknown part");
        // Where nobody was paid, there is none to tell.
        assert_eq!((Cost::default().to_string(), Cost::default().dollars()), ("none".into(), None));
    }
}
