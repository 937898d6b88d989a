//! Names of exchanges in eight characters: each code is of one name, so that the name can be found again.

use tapedb_schema::Ascii;

/// Names of more than eight characters, or with characters that a code does not have, and what they become.
const LONG: [(&str, &str); 34] = [
    ("binance-delivery", "BINCOINM"),
    ("binance-european-options", "BINEUOPT"),
    ("binance-futures", "BINUSDM"),
    ("binance-jersey", "BINJERSY"),
    ("binance-options", "BINOPT"),
    ("binance-us", "BINUS"),
    ("bitfinex-alts", "BFXALTS"),
    ("bitfinex-derivatives", "BFXDERIV"),
    ("bitget-futures", "BITGETMC"),
    ("blockchain-com", "BLOCKCHN"),
    ("bybit-options", "BYBITOPT"),
    ("bybit-spot", "BYBITSPT"),
    ("coinbase-international", "COINBINT"),
    ("crypto-com", "CRYPTOCM"),
    ("crypto-com-derivatives", "CRYPTODV"),
    ("cryptofacilities", "KRAKENFU"),
    ("dydx-v4", "DYDX-V4"),
    ("gate-io", "GATEIO"),
    ("gate-io-futures", "GATEIOFU"),
    ("huobi-dm", "HUOBIDM"),
    ("huobi-dm-linear-swap", "HUOBILIN"),
    ("huobi-dm-options", "HUOBIOPT"),
    ("huobi-dm-swap", "HUOBISWP"),
    ("hyperliquid", "HYPERLIQ"),
    ("kucoin-futures", "KUCOINFU"),
    ("okcoin-com", "OKCOIN"),
    ("okex-futures", "OKEXFUT"),
    ("okex-options", "OKEXOPT"),
    ("okex-spreads", "OKEXSPRD"),
    ("okex-swap", "OKEXSWAP"),
    ("poloniex-futures", "POLOFUT"),
    ("star-atlas", "STARATLS"),
    ("woo-x-perps", "WOOXPERP"),
    ("coinflex-v2", "COINFLX2"),
];

/// The code of an exchange, by its name at tardis.dev: the name in upper case where it is short, else that of a table; `None` for other long
/// names.
pub fn code(name: &str) -> Option<Ascii<8>> {
    let long = LONG.iter().find(|(long, _)| *long == name);
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    match long {
        Some((_, code)) => Ascii::new(code).ok(),
        None if plain => Ascii::new(&name.to_ascii_uppercase()).ok().filter(|code| !is_taken(code.as_str())),
        None => None,
    }
}

/// Whether a code stands for a long name.
fn is_taken(code: &str) -> bool {
    LONG.iter().any(|(name, taken)| *taken == code && !name.eq_ignore_ascii_case(code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_code_is_of_one_name_and_no_name_is_cut() {
        let text = |name| code(name).map(|code| code.to_string());
        let codes: BTreeSet<String> = LONG.iter().map(|(name, _)| text(name).unwrap()).collect();
        assert_eq!(codes.len(), LONG.len());
        assert_eq!(text("binance-futures"), Some("BINUSDM".into()));
        assert_eq!((text("bitmex"), text("okex")), (Some("BITMEX".into()), Some("OKEX".into())));
        assert_eq!((text("a-new-exchange"), text(""), text("binusdm")), (None, None, None));
    }

    /// The page has the whole table.
    #[test]
    fn the_documentation_names_every_code() {
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/IMPORT.md")).unwrap();
        for (name, code) in LONG {
            assert!(page.contains(&format!("`{name}` `{code}`")), "{name} {code}");
        }
    }
}
