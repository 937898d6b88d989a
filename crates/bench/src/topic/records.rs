//! The records that are published: 64-bit words, with the same content as the rivals' (`bench/rivals/topic/rust/rules`), which
//! also sum up all words.

use tapedb_codec::{Record, view_trusted};

/// A record whose content follows from a number.
pub trait Numbered: Record + Clone + Send + Sync + 'static {
    /// The record.
    fn of(number: u64) -> Self;
    /// The sum of its words.
    fn sum(&self) -> u64;
    /// The number and the sum of all words.
    fn decoded(view: Self::View<'_>) -> (u64, u64);
}

/// Decodes every word of a message's body: the number, and the sum of all words.
#[inline(always)]
pub fn decode<T: Numbered>(body: &[u8]) -> (u64, u64) {
    T::decoded(view_trusted::<T>(body))
}

macro_rules! records {
    ($($(#[$doc:meta])* $name:ident: $($word:ident = $content:ident),+;)*) => {
        $(
            $(#[$doc])*
            #[derive(Record, Default, Debug, Clone)]
            #[record(message)]
            pub struct $name {
                /// Its number.
                pub number: u64,
                $(#[doc = concat!("Follows from the number, by `", stringify!($content), "`.")] pub $word: u64,)+
            }

            impl Numbered for $name {
                #[inline(always)]
                fn of(number: u64) -> Self {
                    let random = mixed(number);
                    Self { number, $($word: $content(random),)+ }
                }

                #[inline(always)]
                fn sum(&self) -> u64 {
                    self.number$(.wrapping_add(self.$word))+
                }

                #[inline(always)]
                fn decoded(view: Self::View<'_>) -> (u64, u64) {
                    let number = view.number();
                    (number, number$(.wrapping_add(view.$word()))+)
                }
            }
        )*
    };
}

records! {
    /// 16 bytes.
    Body16: price = price;
    /// 40 bytes. The rivals' second word is the time, which our messages have in the header, like the symbol.
    Body40: stamp = zero, price = price, size = size, contract = contract;
    /// 256 bytes.
    Body256: stamp = zero, price = price, size = size, contract = contract, w05 = same, w06 = same, w07 = same, w08 = same,
        w09 = same, w10 = same, w11 = same, w12 = same, w13 = same, w14 = same, w15 = same, w16 = same, w17 = same,
        w18 = same, w19 = same, w20 = same, w21 = same, w22 = same, w23 = same, w24 = same, w25 = same, w26 = same,
        w27 = same, w28 = same, w29 = same, w30 = same, w31 = same;
}

/// A hash of one multiplication, so that records differ.
#[inline(always)]
fn mixed(value: u64) -> u64 {
    let product = value.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

#[inline(always)]
fn zero(_: u64) -> u64 {
    0
}

#[inline(always)]
fn price(random: u64) -> u64 {
    10_000 + (random & 127)
}

#[inline(always)]
fn size(random: u64) -> u64 {
    1 + (random >> 8 & 511)
}

#[inline(always)]
fn contract(random: u64) -> u64 {
    random >> 24 & 7
}

#[inline(always)]
fn same(random: u64) -> u64 {
    random
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one bit of any word flipped, the number or the sum changes.
    fn check_every_word_counts<T: Numbered>(bytes: usize) {
        let mut body = Vec::new();
        tapedb_codec::encode(&T::of(7), &mut body);
        assert_eq!((body.len(), decode::<T>(&body)), (bytes, (7, T::of(7).sum())));
        for at in 0..bytes {
            body[at] ^= 1;
            assert_ne!(decode::<T>(&body), (7, T::of(7).sum()), "byte {at}");
            body[at] ^= 1;
        }
    }

    #[test]
    fn a_subscriber_sums_up_every_word() {
        check_every_word_counts::<Body16>(16);
        check_every_word_counts::<Body40>(40);
        check_every_word_counts::<Body256>(256);
    }
}
