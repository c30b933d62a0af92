//! A row: what a paper says, what the model gives, and whether that is near enough.

use serde::Serialize;

/// How the model came to its figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// A parameter was chosen for it.
    Fitted,
    /// It follows from the others.
    Predicted,
}

/// How near it must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bar {
    /// Within so many percent of the paper's figure.
    Percent(f64),
    /// Within so many of the row's units.
    Within(f64),
    /// The paper states it in words: the figure lies between these.
    Between(f64, f64),
    /// The paper has no figure.
    None,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Near enough.
    Met,
    /// Not near enough.
    Missed,
    /// Not near enough, and it is written why no honest parameter helps.
    Known,
    /// There is nothing to compare with.
    Unpublished,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Item of the lineage.
    pub item: &'static str,
    pub what: String,
    pub unit: &'static str,
    pub paper: Option<f64>,
    pub model: f64,
    pub basis: Basis,
    pub bar: Bar,
    /// Why it is missed, if that is known.
    pub reason: Option<&'static str>,
    /// What is to be known of it, met or not.
    pub note: Option<&'static str>,
}

impl Row {
    fn new(
        (item, what, unit): (&'static str, String, &'static str),
        (paper, model): (Option<f64>, f64),
        (basis, bar): (Basis, Bar),
    ) -> Self {
        Self { item, what, unit, paper, model, basis, bar, reason: None, note: None }
    }

    /// A figure that a parameter was chosen for: within 2 %.
    pub fn fitted(
        item: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        paper: f64,
        model: f64,
    ) -> Self {
        let judged = (Basis::Fitted, Bar::Percent(2.0));
        Self::new((item, what.into(), unit), (Some(paper), model), judged)
    }

    /// A figure that follows.
    pub fn predicted(
        item: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        paper: f64,
        model: f64,
        bar: Bar,
    ) -> Self {
        Self::new((item, what.into(), unit), (Some(paper), model), (Basis::Predicted, bar))
    }

    /// What the paper states in words.
    pub fn stated(
        item: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        model: f64,
        (low, high): (f64, f64),
    ) -> Self {
        let judged = (Basis::Predicted, Bar::Between(low, high));
        Self::new((item, what.into(), unit), (None, model), judged)
    }

    /// What the paper has no figure for.
    pub fn unpublished(
        item: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        model: f64,
    ) -> Self {
        Self::new((item, what.into(), unit), (None, model), (Basis::Predicted, Bar::None))
    }

    /// If it is missed, this is why.
    pub fn because(mut self, reason: &'static str) -> Self {
        self.reason = Some(reason);
        self
    }

    /// What is to be known of it.
    pub fn noting(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }

    /// What is to be told of it below the table: why it is missed, and what is to be known.
    pub fn told(&self) -> impl Iterator<Item = &'static str> {
        let missed = self.verdict() == Verdict::Known;
        self.reason.filter(|_| missed).into_iter().chain(self.note)
    }

    /// The model's difference from the paper, in percent.
    pub fn percent(&self) -> Option<f64> {
        self.paper.map(|paper| (self.model / paper - 1.0) * 100.0)
    }

    pub fn verdict(&self) -> Verdict {
        let met = match (self.bar, self.paper) {
            (Bar::None, _) => return Verdict::Unpublished,
            (Bar::Percent(most), _) => self.percent().is_some_and(|percent| percent.abs() <= most),
            (Bar::Within(most), Some(paper)) => (self.model - paper).abs() <= most,
            (Bar::Within(_), None) => false,
            (Bar::Between(low, high), _) => (low..=high).contains(&self.model),
        };
        match (met, self.reason) {
            (true, _) => Verdict::Met,
            (false, None) => Verdict::Missed,
            (false, Some(_)) => Verdict::Known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_held_and_a_known_miss_is_marked() {
        let row = |model| Row::fitted("I24", "latency", "us", 100.0, model);
        assert_eq!(row(101.9).verdict(), Verdict::Met);
        assert_eq!(row(97.9).verdict(), Verdict::Missed);
        assert_eq!(row(97.9).because("of that").verdict(), Verdict::Known);
        assert_eq!(row(99.0).because("of that").verdict(), Verdict::Met);
        assert_eq!(row(97.9).because("of that").noting("so").told().count(), 2);
        assert_eq!(row(99.0).because("of that").noting("so").told().collect::<Vec<_>>(), ["so"]);
        let gain = Row::predicted("I25", "gain", "%", 7.0, 4.1, Bar::Within(3.0));
        assert_eq!(gain.verdict(), Verdict::Met);
        assert_eq!(Row::stated("I26", "ratio", "", 1.06, (0.95, 1.05)).verdict(), Verdict::Missed);
        assert_eq!(Row::unpublished("V31", "time", "us", 1.0).verdict(), Verdict::Unpublished);
    }
}
