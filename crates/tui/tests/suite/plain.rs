//! Folding the same feed items always gives the same `SessionView`, and events that arrive again add no entries. (The
//! plain mode itself is tested with the real program.)

use crate::script;
use althing_protocol::FeedItem;
use althing_view::SessionView;

#[test]
fn the_same_items_give_the_same_model() {
    let items = script::conversation().items;
    let fold = || {
        let mut model = SessionView::default();
        for item in &items {
            model.apply(item);
        }
        model
    };
    assert_eq!(fold(), fold());
    let mut once_more = fold();
    for item in items.iter().filter(|item| matches!(item, FeedItem::Event(_))) {
        once_more.apply(item);
    }
    assert_eq!(once_more.entries, fold().entries, "facts that come again change nothing");
}
