//! Tones and colours: views say what a text means, a theme says how that looks.
//!
//! One accent colour; the rest is weight and dimness. Cached lines hold tones, so a change of theme redraws them as they are.

use ratatui::style::{Color, Modifier, Style};

/// What a piece of text means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tone {
    /// Ordinary text.
    #[default]
    Plain,
    /// Less important.
    Dim,
    /// More important.
    Bold,
    /// Emphasised in prose.
    Italic,
    /// What the eye should find first.
    Accent,
    /// The same, with weight.
    AccentBold,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Wants attention.
    Warn,
    /// Where the focus is.
    Selected,
    /// A line that was added.
    Added,
    /// A line that was removed.
    Removed,
    /// Code.
    Code,
    /// A keyword in code.
    Keyword,
    /// A text in code.
    Literal,
    /// A comment in code.
    Comment,
    /// A link.
    Link,
    /// Found by a search.
    Match,
}

/// How tones look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    /// Light text on dark ground.
    #[default]
    Dark,
    /// Dark text on light ground.
    Light,
    /// Weight only: `NO_COLOR`.
    Mono,
}

impl Theme {
    /// Every theme, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Dark, Self::Light, Self::Mono];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Mono => "mono",
        }
    }

    /// The theme of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// How a tone looks. Only the sixteen colours that every terminal has, so that the user's own palette holds.
    pub fn style(self, tone: Tone) -> Style {
        let base = Style::new();
        let bold = base.add_modifier(Modifier::BOLD);
        let dim = base.add_modifier(Modifier::DIM);
        let (accent, good, warn) = match self {
            Self::Dark => (Some(Color::Cyan), Some(Color::Green), Some(Color::Yellow)),
            Self::Light => (Some(Color::Blue), Some(Color::Green), Some(Color::Magenta)),
            Self::Mono => (None, None, None),
        };
        let bad = (self != Self::Mono).then_some(Color::Red);
        let with = |style: Style, color: Option<Color>| color.map_or(style, |color| style.fg(color));
        match tone {
            Tone::Plain => base,
            Tone::Dim | Tone::Comment => dim,
            Tone::Bold => bold,
            Tone::Italic => base.add_modifier(Modifier::ITALIC),
            Tone::Accent => with(base, accent),
            Tone::AccentBold => with(bold, accent),
            Tone::Good => with(base, good),
            Tone::Bad => with(bold, bad),
            Tone::Warn => with(bold, warn),
            Tone::Selected => base.add_modifier(Modifier::REVERSED),
            Tone::Added => with(base, good),
            Tone::Removed => with(if self == Self::Mono { dim } else { base }, bad),
            Tone::Code => with(base, accent),
            Tone::Keyword => with(bold, accent),
            Tone::Literal => with(base, good),
            Tone::Link => with(base.add_modifier(Modifier::UNDERLINED), accent),
            Tone::Match => bold.add_modifier(Modifier::REVERSED),
        }
    }
}
