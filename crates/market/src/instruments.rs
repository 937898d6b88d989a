//! What a venue reports about an instrument: definition, status, statistics, auction imbalance, symbol mappings.

use crate::records::{Side, lies};
use tapedb_codec::{Enumeration, Record};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Kind of an instrument.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum InstrumentKind {
    /// A stock, fund or certificate.
    #[default]
    Stock,
    /// A bond.
    Bond,
    /// A future with an expiry.
    Future,
    /// A future without an expiry.
    Perpetual,
    /// A call option.
    Call,
    /// A put option.
    Put,
    /// A spread of futures.
    FutureSpread,
    /// A spread of options.
    OptionSpread,
    /// A spread of instruments of several kinds.
    MixedSpread,
    /// Two currencies or coins against each other.
    Spot,
    /// A commodity for delivery at once.
    Commodity,
    /// A swap.
    Swap,
    /// An index.
    Index,
}

/// What a definition does.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DefinitionAction {
    /// The instrument is new, or stated once more.
    #[default]
    Add,
    /// The instrument has changed.
    Modify,
    /// The instrument is removed.
    Delete,
}

/// What an instrument is. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Definition {
    /// What the definition does; null: not reported.
    pub action: Option<DefinitionAction>,
    /// Kind of the instrument; null: not reported.
    pub kind: Option<InstrumentKind>,
    /// The venue's own symbol.
    pub raw_symbol: Option<String>,
    /// What a derivative is derived from.
    pub underlying: Option<String>,
    /// The venue's product code.
    pub asset: Option<String>,
    /// The venue's group of instruments.
    pub group: Option<String>,
    /// The venue's type of security.
    pub security_type: Option<String>,
    /// Classification code of ISO 10962.
    pub cfi: Option<Ascii<8>>,
    /// Currency of prices.
    pub currency: Option<Ascii<8>>,
    /// Currency of settlement.
    pub settlement_currency: Option<Ascii<8>>,
    /// Venue.
    pub exchange: Option<Ascii<8>>,
    /// Smallest change of a price.
    pub tick_size: Option<Decimal64>,
    /// Smallest change of a size.
    pub size_increment: Option<Decimal64>,
    /// What prices are multiplied with to show them.
    pub display_factor: Option<Decimal64>,
    /// How much of `contract_unit` one contract is.
    pub contract_size: Option<Decimal64>,
    /// Unit of the contract's size.
    pub contract_unit: Option<String>,
    /// Strike price of an option.
    pub strike_price: Option<Decimal64>,
    /// First time of trading.
    pub activation: Option<Timestamp>,
    /// Last time of trading.
    pub expiration: Option<Timestamp>,
    /// When the venue made it valid.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// The venue's number of the channel.
    pub channel_id: Option<u16>,
    /// Everything else that is reported, under the names that the vendor or venue gives.
    pub attributes: Vec<Attribute>,
}

/// A fact about an instrument, as text.
#[derive(Record, Debug, Clone, PartialEq, Eq, Default)]
pub struct Attribute {
    /// Name, as the vendor or venue writes it.
    pub name: String,
    /// Value.
    pub value: String,
}

/// State of trading.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TradingState {
    /// Orders match continuously.
    #[default]
    Trading,
    /// Orders are accepted before the open.
    PreOpen,
    /// Orders are accepted before an auction.
    PreAuction,
    /// Only quotes are accepted.
    Quoting,
    /// An auction or cross takes place.
    Auction,
    /// The opening rotation takes place.
    Rotation,
    /// A new price indication is published.
    PriceIndication,
    /// Trading is halted by the venue or a regulator.
    Halted,
    /// Trading is paused, for instance by a limit of volatility.
    Paused,
    /// The instrument is suspended.
    Suspended,
    /// Before the close.
    PreClose,
    /// Closed.
    Closed,
    /// After the close.
    PostClose,
    /// The state is the same; the restriction of short sales has changed.
    ShortSaleChange,
    /// Not available for trading.
    NotAvailable,
}

/// A change of an instrument's state: halt, auction, open, close. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Status {
    /// The state; null: none of these, see `state_code`.
    pub state: Option<TradingState>,
    /// The vendor's code of the state.
    pub state_code: Option<u32>,
    /// The vendor's code of the reason.
    pub reason_code: Option<u32>,
    /// The vendor's code of the effect on trading.
    pub event_code: Option<u32>,
    /// State or reason in words, as the venue reports it.
    pub text: Option<String>,
    /// Whether orders match.
    pub trading: Option<bool>,
    /// Whether quotes are accepted.
    pub quoting: Option<bool>,
    /// Whether short sales are restricted.
    pub short_sale_restricted: Option<bool>,
    /// When the venue changed it.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// What a statistic is.
#[derive(Enumeration, Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StatisticKind {
    /// First price of the session.
    #[default]
    OpeningPrice,
    /// Expected price of the opening auction, with its size.
    IndicativeOpeningPrice,
    /// Settlement price.
    SettlementPrice,
    /// Lowest price of the session.
    SessionLow,
    /// Highest price of the session.
    SessionHigh,
    /// Size cleared on the day before.
    ClearedVolume,
    /// Lowest offer of the session.
    LowestOffer,
    /// Highest bid of the session.
    HighestBid,
    /// Contracts that are open.
    OpenInterest,
    /// Volume-weighted average price of a fixing.
    FixingPrice,
    /// Last price of the session.
    ClosePrice,
    /// Change of the close against the day before.
    NetChange,
    /// Volume-weighted average price of the session.
    Vwap,
    /// Implied volatility.
    Volatility,
    /// Delta of an option.
    Delta,
    /// Price of an auction.
    AuctionPrice,
    /// Highest price that is accepted.
    UpperPriceLimit,
    /// Lowest price that is accepted.
    LowerPriceLimit,
    /// Size traded in blocks.
    BlockVolume,
    /// Size traded in the session.
    SessionVolume,
}

/// A figure that a venue publishes about an instrument. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Statistic {
    /// What it is; null: none of these, see `code`.
    pub kind: Option<StatisticKind>,
    /// The vendor's code of the kind.
    pub code: Option<u32>,
    /// The figure, where it is a price or a ratio.
    pub price: Option<Decimal64>,
    /// The figure, where it is a size.
    pub quantity: Option<Decimal64>,
    /// What time it is about, such as the session's day.
    pub reference_time: Option<Timestamp>,
    /// An earlier figure is withdrawn.
    pub withdrawn: bool,
    /// The vendor's flags, as they are.
    pub flags: Option<u32>,
    /// The venue's sequence number.
    pub sequence: Option<u64>,
    /// When the matching engine did what it reports.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// The venue's number of the channel.
    pub channel_id: Option<u16>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// Orders of an auction that do not match, and its expected prices. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Default)]
#[record(message)]
pub struct Imbalance {
    /// Price at which paired and unpaired sizes are computed.
    pub reference_price: Option<Decimal64>,
    /// When the auction takes place.
    pub auction_time: Option<Timestamp>,
    /// Clearing price of the orders of the auction and of the continuous book.
    pub book_clearing_price: Option<Decimal64>,
    /// Clearing price of the orders of the auction alone.
    pub auction_clearing_price: Option<Decimal64>,
    /// Price at which short sales of the restriction are filled.
    pub short_sale_price: Option<Decimal64>,
    /// Expected price of the auction.
    pub match_price: Option<Decimal64>,
    /// Highest price of the auction.
    pub upper_collar: Option<Decimal64>,
    /// Lowest price of the auction.
    pub lower_collar: Option<Decimal64>,
    /// Size that matches at the reference price.
    pub paired_size: Option<Decimal64>,
    /// Size that does not match at the reference price.
    pub imbalance_size: Option<Decimal64>,
    /// Size of market orders that does not match.
    pub market_imbalance_size: Option<Decimal64>,
    /// Size that does not match at the expected price.
    pub unpaired_size: Option<Decimal64>,
    /// Side of the imbalance; null: none.
    pub side: Option<Side>,
    /// Side of the unpaired size; null: none.
    pub unpaired_side: Option<Side>,
    /// The venue's code of the auction.
    pub auction_type: Option<Ascii<8>>,
    /// The venue's code of the auction's status.
    pub auction_status: Option<u8>,
    /// The venue's code of the freeze.
    pub freeze_status: Option<u8>,
    /// How often the auction was extended.
    pub extensions: Option<u8>,
    /// The venue's code of the imbalance's significance.
    pub significance: Option<Ascii<8>>,
    /// When the matching engine did what it reports.
    pub match_time: Option<Timestamp>,
    /// When the venue sent it.
    pub source_time: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
    /// Venue, where it differs from message to message.
    pub exchange: Option<Ascii<8>>,
}

/// For some time, a name or number stands for an instrument. The message's time is when it was received.
#[derive(Record, Debug, Clone, PartialEq, Eq, Default)]
#[record(message)]
pub struct SymbolMapping {
    /// Name or number that was asked for.
    pub symbol_in: String,
    /// The vendor's code of its kind.
    pub kind_in: Option<u8>,
    /// Name or number that it stands for.
    pub symbol_out: String,
    /// The vendor's code of its kind.
    pub kind_out: Option<u8>,
    /// From when.
    pub start: Option<Timestamp>,
    /// Until when.
    pub end: Option<Timestamp>,
    /// When the vendor sent it on.
    pub vendor_time: Option<Timestamp>,
    /// The vendor's or venue's number of the instrument.
    pub instrument_id: Option<u64>,
    /// The vendor's number of the data's publisher.
    pub publisher_id: Option<u16>,
}

const _: () = assert!(lies::<Definition>(
    158,
    &[
        4, 5, 6, 10, 14, 18, 22, 26, 34, 42, 50, 58, 66, 74, 82, 90, 94, 102, 110, 118, 126, 134, 142, 150,
        152, 154
    ]
));
const _: () = assert!(lies::<Status>(64, &[2, 3, 7, 11, 15, 19, 20, 21, 22, 30, 38, 46, 54, 56]));
const _: () = assert!(lies::<Statistic>(88, &[2, 3, 7, 15, 23, 31, 32, 36, 44, 52, 60, 68, 76, 78, 80]));
const _: () = assert!(lies::<Imbalance>(
    163,
    &[
        4, 12, 20, 28, 36, 44, 52, 60, 68, 76, 84, 92, 100, 101, 102, 110, 111, 112, 113, 121, 129, 137, 145,
        153, 155
    ]
));
const _: () = assert!(lies::<SymbolMapping>(45, &[1, 5, 6, 10, 11, 19, 27, 35, 43]));
