//! How far two who judge the same agree.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Yes and no of two who were asked the same: a judge and people, or two judges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agreement {
    /// Both said yes.
    pub both_yes: u64,
    /// Both said no.
    pub both_no: u64,
    /// The first alone said yes.
    pub first_yes: u64,
    /// The second alone said yes.
    pub second_yes: u64,
}

impl Agreement {
    /// Of one question.
    pub fn of(first: bool, second: bool) -> Self {
        let mut agreement = Self::default();
        *match (first, second) {
            (true, true) => &mut agreement.both_yes,
            (false, false) => &mut agreement.both_no,
            (true, false) => &mut agreement.first_yes,
            (false, true) => &mut agreement.second_yes,
        } = 1;
        agreement
    }

    /// Questions.
    pub fn count(&self) -> u64 {
        self.both_yes + self.both_no + self.first_yes + self.second_yes
    }

    /// The share of questions on which they agree; none of none.
    pub fn share(&self) -> Option<f64> {
        ratio(self.both_yes + self.both_no, self.count())
    }

    /// Cohen's kappa: the agreement beyond what two would have who say yes as often as these do, but by chance; 1 at most, and
    /// nothing where chance alone makes them agree. (J. Cohen, A Coefficient of Agreement for Nominal Scales, 1960)
    pub fn kappa(&self) -> Option<f64> {
        let yes = |alone: u64| ratio(self.both_yes + alone, self.count());
        let (first, second) = (yes(self.first_yes)?, yes(self.second_yes)?);
        let by_chance = first.mul_add(second, (1.0 - first) * (1.0 - second));
        (by_chance < 1.0).then_some((self.share()? - by_chance) / (1.0 - by_chance))
    }
}

impl AddAssign for Agreement {
    fn add_assign(&mut self, other: Self) {
        self.both_yes += other.both_yes;
        self.both_no += other.both_no;
        self.first_yes += other.first_yes;
        self.second_yes += other.second_yes;
    }
}

#[expect(clippy::cast_precision_loss, reason = "nobody is asked 2^52 questions")]
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_by_chance_is_no_agreement() {
        // The example of Wikipedia's article on Cohen's kappa.
        let readers = Agreement { both_yes: 20, both_no: 15, first_yes: 5, second_yes: 10 };
        assert_eq!(readers.share(), Some(0.7));
        assert!((readers.kappa().unwrap() - 0.4).abs() < 1e-12);
        let always_yes = Agreement { both_yes: 9, ..Agreement::default() };
        assert_eq!((always_yes.share(), always_yes.kappa()), (Some(1.0), None));
        assert_eq!((Agreement::default().share(), Agreement::default().kappa()), (None, None));
        let mut sum = Agreement::of(true, false);
        sum += Agreement::of(false, false);
        assert_eq!(sum, Agreement { both_no: 1, first_yes: 1, ..Agreement::default() });
    }
}
