//! Tones and colors: views choose a tone by meaning, and a theme maps it to a style. Cached lines contain tones, so
//! changing the theme needs no new layout.

use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tone {
    #[default]
    Plain,
    Dim,
    Bold,
    Italic,
    Accent,
    AccentBold,
    Good,
    Bad,
    Warn,
    Button,
    Selected,
    Added,
    Removed,
    Code,
    Keyword,
    Literal,
    Comment,
    Link,
    Match,
    Found,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theme {
    #[default]
    Dark,
    Light,
    /// Without colors, as the environment variable `NO_COLOR` requests.
    Mono,
}

impl Theme {
    pub const ALL: [Self; 3] = [Self::Dark, Self::Light, Self::Mono];

    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Mono => "mono",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.name() == name)
    }

    /// The theme for the value of the variable `COLORFGBG`, such as `15;0`. Its last number is the background color,
    /// one of the sixteen standard colors.
    pub fn by_colors(value: &str) -> Self {
        let background: Option<u8> = value.rsplit(';').next().and_then(|number| number.trim().parse().ok());
        match background {
            Some(7 | 9..=15) => Self::Light,
            _ => Self::Dark,
        }
    }

    /// Uses only the sixteen standard colors, so that the user's palette applies.
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
            Tone::Bold | Tone::Button => bold,
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
            Tone::Found => bold.add_modifier(Modifier::UNDERLINED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_that_the_terminal_names_chooses_the_theme() {
        for (value, theme) in [
            ("0;15", Theme::Light),
            ("0;default;15", Theme::Light),
            ("0;7", Theme::Light),
            ("15;0", Theme::Dark),
            ("7;8", Theme::Dark),
            ("default;default", Theme::Dark),
            ("", Theme::Dark),
        ] {
            assert_eq!(Theme::by_colors(value), theme, "{value}");
        }
    }
}
