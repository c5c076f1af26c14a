//! Serializes file names and arguments for guards and for the mount check: as text or, if they are not UTF-8, as
//! bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OsText {
    Text(String),
    Bytes(Vec<u8>),
}

impl OsText {
    fn of(name: &OsStr) -> Self {
        name.to_str()
            .map_or_else(|| Self::Bytes(name.as_bytes().to_vec()), |text| Self::Text(text.to_owned()))
    }

    fn name(self) -> OsString {
        match self {
            Self::Text(text) => text.into(),
            Self::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

pub(crate) fn serialize<S: Serializer>(name: &impl AsRef<OsStr>, serializer: S) -> Result<S::Ok, S::Error> {
    OsText::of(name.as_ref()).serialize(serializer)
}

pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    OsText::deserialize(deserializer).map(|text| text.name().into())
}

pub(crate) mod list {
    use super::{Deserialize, Deserializer, OsStr, OsString, OsText, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        names: &[impl AsRef<OsStr>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        names.iter().map(|name| OsText::of(name.as_ref())).collect::<Vec<_>>().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: From<OsString>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        let texts = Vec::<OsText>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|text| text.name().into()).collect())
    }
}
