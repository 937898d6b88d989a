//! Rust types for the sample schemas. Not written by hand: `generate.rs` makes them, and
//! `TAPEDB_GENERATE=1 cargo test -p tapedb-soak --test it generated` writes them here.

use crate::compiled::*;

mod s0 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<bool>, field_1: i8, field_2: i16, field_3: i32, field_4: i64, field_5: Option<u8>, field_6: u16, field_7: Option<u32>, field_8: u64, field_9: f32, field_10: f64, field_11: Option<Decimal64>, field_12: Option<Fixed<10>>, field_13: Option<Timestamp>, field_14: TimeOfDay, field_15: Option<char>, field_16: Ascii<11>, field_17: Option<String>, field_18: Binary, field_19: Option<Enum3>, field_20: Vec<u64>, field_21: Option<Box<Record0>>, field_22: Option<u32>, field_23: f32, field_24: Option<i64>, field_25: Option<Timestamp>, field_26: Option<Ascii<14>>, field_27: i8, field_28: f64 });
    enumeration!(Enum3 "Enum3" { Symbol_0 = 643, Symbol_1 = 645, Symbol_2 = 646, Symbol_3 = 647, Symbol_4 = 649, Symbol_5 = 650, Symbol_6 = 652, Symbol_7 = 653, Symbol_8 = 654, Symbol_9 = 655, Symbol_10 = 658, Symbol_11 = 661, Symbol_12 = 662, Symbol_13 = 664, Symbol_14 = 666, Symbol_15 = 667, Symbol_16 = 670, Symbol_17 = 673, Symbol_18 = 674, Symbol_19 = 675, Symbol_20 = 678, Symbol_21 = 680, Symbol_22 = 681, Symbol_23 = 684, Symbol_24 = 687, Symbol_25 = 690, Symbol_26 = 693, Symbol_27 = 695, Symbol_28 = 696, Symbol_29 = 699, Symbol_30 = 700, Symbol_31 = 701, Symbol_32 = 702, Symbol_33 = 704, Symbol_34 = 705, Symbol_35 = 707, Symbol_36 = 710, Symbol_37 = 713, Symbol_38 = 715, Symbol_39 = 718, Symbol_40 = 721, Symbol_41 = 724, Symbol_42 = 725, Symbol_43 = 728, Symbol_44 = 731, Symbol_45 = 733, Symbol_46 = 735, Symbol_47 = 736, Symbol_48 = 737, Symbol_49 = 738, Symbol_50 = 740, Symbol_51 = 742, Symbol_52 = 745, Symbol_53 = 747, Symbol_54 = 748, Symbol_55 = 750, Symbol_56 = 751, Symbol_57 = 754, Symbol_58 = 756, Symbol_59 = 758, Symbol_60 = 759, Symbol_61 = 760, Symbol_62 = 762, Symbol_63 = 765, Symbol_64 = 768, Symbol_65 = 769, Symbol_66 = 771, Symbol_67 = 773, Symbol_68 = 774, Symbol_69 = 777, Symbol_70 = 779, Symbol_71 = 781, Symbol_72 = 784, Symbol_73 = 785, Symbol_74 = 786, Symbol_75 = 787, Symbol_76 = 789, Symbol_77 = 790, Symbol_78 = 792, Symbol_79 = 795, Symbol_80 = 798, Symbol_81 = 801, Symbol_82 = 804, Symbol_83 = 806, Symbol_84 = 808, Symbol_85 = 810, Symbol_86 = 811, Symbol_87 = 814, Symbol_88 = 816, Symbol_89 = 817, Symbol_90 = 819, Symbol_91 = 822, Symbol_92 = 824, Symbol_93 = 825, Symbol_94 = 827, Symbol_95 = 830, Symbol_96 = 831, Symbol_97 = 834, Symbol_98 = 835, Symbol_99 = 837, Symbol_100 = 839, Symbol_101 = 841, Symbol_102 = 842, Symbol_103 = 845, Symbol_104 = 848, Symbol_105 = 849, Symbol_106 = 851, Symbol_107 = 853, Symbol_108 = 854, Symbol_109 = 857, Symbol_110 = 860, Symbol_111 = 863, Symbol_112 = 864, Symbol_113 = 865, Symbol_114 = 866, Symbol_115 = 867, Symbol_116 = 868, Symbol_117 = 870, Symbol_118 = 872, Symbol_119 = 874, Symbol_120 = 877, Symbol_121 = 880, Symbol_122 = 883, Symbol_123 = 886, Symbol_124 = 888, Symbol_125 = 891, Symbol_126 = 892, Symbol_127 = 895, Symbol_128 = 898, Symbol_129 = 901, Symbol_130 = 902, Symbol_131 = 905, Symbol_132 = 907, Symbol_133 = 908, Symbol_134 = 911, Symbol_135 = 914, Symbol_136 = 915, Symbol_137 = 917, Symbol_138 = 918, Symbol_139 = 921, Symbol_140 = 922, Symbol_141 = 923, Symbol_142 = 926, Symbol_143 = 929, Symbol_144 = 931, Symbol_145 = 932, Symbol_146 = 933, Symbol_147 = 935, Symbol_148 = 938, Symbol_149 = 939, Symbol_150 = 942, Symbol_151 = 945, Symbol_152 = 946, Symbol_153 = 948, Symbol_154 = 949, Symbol_155 = 950, Symbol_156 = 951, Symbol_157 = 952, Symbol_158 = 953, Symbol_159 = 956, Symbol_160 = 957, Symbol_161 = 959, Symbol_162 = 962, Symbol_163 = 963, Symbol_164 = 966, Symbol_165 = 967, Symbol_166 = 969, Symbol_167 = 972, Symbol_168 = 975, Symbol_169 = 976, Symbol_170 = 979, Symbol_171 = 982, Symbol_172 = 985, Symbol_173 = 987, Symbol_174 = 988, Symbol_175 = 989, Symbol_176 = 990, Symbol_177 = 993, Symbol_178 = 996, Symbol_179 = 999, Symbol_180 = 1001, Symbol_181 = 1003, Symbol_182 = 1006, Symbol_183 = 1009, Symbol_184 = 1011, Symbol_185 = 1013, Symbol_186 = 1015, Symbol_187 = 1016, Symbol_188 = 1019, Symbol_189 = 1020, Symbol_190 = 1022, Symbol_191 = 1024, Symbol_192 = 1027, Symbol_193 = 1029, Symbol_194 = 1031, Symbol_195 = 1033, Symbol_196 = 1034, Symbol_197 = 1037, Symbol_198 = 1039, Symbol_199 = 1041, Symbol_200 = 1044, Symbol_201 = 1045, Symbol_202 = 1048, Symbol_203 = 1050, Symbol_204 = 1053, Symbol_205 = 1055, Symbol_206 = 1058, Symbol_207 = 1060, Symbol_208 = 1061, Symbol_209 = 1064, Symbol_210 = 1066, Symbol_211 = 1067, Symbol_212 = 1069, Symbol_213 = 1072, Symbol_214 = 1074, Symbol_215 = 1075, Symbol_216 = 1078, Symbol_217 = 1081, Symbol_218 = 1083, Symbol_219 = 1085, Symbol_220 = 1086, Symbol_221 = 1088, Symbol_222 = 1091, Symbol_223 = 1092, Symbol_224 = 1094, Symbol_225 = 1096, Symbol_226 = 1097, Symbol_227 = 1099, Symbol_228 = 1101, Symbol_229 = 1103, Symbol_230 = 1104, Symbol_231 = 1106, Symbol_232 = 1107, Symbol_233 = 1108, Symbol_234 = 1110, Symbol_235 = 1112, Symbol_236 = 1114, Symbol_237 = 1116, Symbol_238 = 1117, Symbol_239 = 1118, Symbol_240 = 1120, Symbol_241 = 1123, Symbol_242 = 1126, Symbol_243 = 1127, Symbol_244 = 1130, Symbol_245 = 1132, Symbol_246 = 1133, Symbol_247 = 1136, Symbol_248 = 1138, Symbol_249 = 1140, Symbol_250 = 1141, Symbol_251 = 1142, Symbol_252 = 1144, Symbol_253 = 1145, Symbol_254 = 1147, Symbol_255 = 1149, Symbol_256 = 1151, Symbol_257 = 1152 });
}

mod s1 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Enum0, field_1: Option<i16>, field_2: Option<Timestamp>, field_3: i8, field_4: Option<bool>, field_5: Binary, field_6: Timestamp });
    record!(message Record1 Record1View "Record1" { field_0: Enum2, field_1: Ascii<7>, field_2: Binary, field_3: TimeOfDay, field_4: Binary });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -112, Symbol_1 = -110, Symbol_2 = -107, Symbol_3 = -104, Symbol_4 = -102, Symbol_5 = -101, Symbol_6 = -98, Symbol_7 = -96, Symbol_8 = -94, Symbol_9 = -92, Symbol_10 = -90, Symbol_11 = -88 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = -206, Symbol_1 = -204, Symbol_2 = -203, Symbol_3 = -201, Symbol_4 = -199, Symbol_5 = -196, Symbol_6 = -193, Symbol_7 = -190 });
}

mod s2 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<Box<Union0>>, field_1: u8, field_2: u64, field_3: i32, field_4: Decimal64 });
    record!(message Record1 Record1View "Record1" { field_0: Ascii<6>, field_1: Record0, field_2: f32, field_3: Fixed<17>, field_4: TimeOfDay, field_5: u64 });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<Timestamp>, field_1: f64, field_2: TimeOfDay });
    record!(Record3 Record3View "Record3" { field_0: Union1, field_1: Option<TimeOfDay>, field_2: bool, field_3: u32, field_4: u16, field_5: Fixed<15>, field_6: u32, field_7: u8, field_8: Option<u8> });
    record!(Record4 Record4View "Record4" { field_0: Option<Enum0>, field_1: Enum0, field_2: Option<TimeOfDay>, field_3: u8, field_4: Option<Ascii<11>>, field_5: Option<Enum2>, field_6: Option<u32>, field_7: Vec<Option<Timestamp>>, field_8: u16 });
    record!(Record5 Record5View "sample.market_5.Record5" { field_0: u64, field_1: char, field_2: u64 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 530, Symbol_1 = 531, Symbol_2 = 533, Symbol_3 = 536, Symbol_4 = 539, Symbol_5 = 540, Symbol_6 = 543, Symbol_7 = 545 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 206, Symbol_1 = 207, Symbol_2 = 209, Symbol_3 = 212, Symbol_4 = 214, Symbol_5 = 215, Symbol_6 = 216, Symbol_7 = 219, Symbol_8 = 220, Symbol_9 = 223, Symbol_10 = 224 });
    union!(Union0 Union0View { Record1, Record2 });
    union!(Union1 Union1View { Record2, Record0, Record1 });
}

mod s3 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<String>, field_1: Vec<i64>, field_2: TimeOfDay, field_3: Enum0, field_4: i32, field_5: Fixed<0>, field_6: char, field_7: i32 });
    record!(Record1 Record1View "Record1" { field_0: f32, field_1: Option<f32>, field_2: Option<Decimal64>, field_3: i64, field_4: Option<u64>, field_5: Option<Ascii<16>>, field_6: f32, field_7: i8, field_8: f32, field_9: Option<f32> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: u16, field_1: Enum0, field_2: Vec<bool>, field_3: Enum0, field_4: Vec<Option<Binary>>, field_5: i32, field_6: Option<Box<Union0>>, field_7: Option<bool>, field_8: Vec<Option<u64>>, field_9: Option<TimeOfDay>, field_10: Option<Ascii<13>> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -855, Symbol_1 = -854, Symbol_2 = -852, Symbol_3 = -851, Symbol_4 = -848, Symbol_5 = -846, Symbol_6 = -843, Symbol_7 = -840 });
    union!(Union0 Union0View { Record0, Record1, Record2 });
}

mod s4 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: i8, field_2: Option<i16>, field_3: i32, field_4: i64, field_5: u8, field_6: u16, field_7: u32, field_8: Option<u64>, field_9: Option<f32>, field_10: f64, field_11: Option<Decimal64>, field_12: Fixed<18>, field_13: Timestamp, field_14: TimeOfDay, field_15: char, field_16: Ascii<1>, field_17: String, field_18: Binary, field_19: Enum0, field_20: Option<Vec<Ascii<14>>>, field_21: Option<Box<Record0>>, field_22: bool, field_23: Vec<Option<Timestamp>>, field_24: u8, field_25: TimeOfDay, field_26: u16, field_27: i64 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -17, Symbol_1 = -15, Symbol_2 = -13, Symbol_3 = -10, Symbol_4 = -8, Symbol_5 = -7, Symbol_6 = -5, Symbol_7 = -2, Symbol_8 = 1, Symbol_9 = 3, Symbol_10 = 6 });
}

mod s5 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: i32, field_1: f64, field_2: Option<Box<Record0>>, field_3: Option<f64>, field_4: Option<Box<Record0>>, field_5: u64, field_6: u16, field_7: u8, field_8: Option<Decimal64>, field_9: i64, field_10: bool });
}

mod s6 {
    use super::*;
    record!(message Record0 Record0View "Record0" {  });
    record!(message Record1 Record1View "Record1" { field_0: Timestamp, field_1: Ascii<16>, field_2: Vec<Option<u64>>, field_3: String, field_4: i32 });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: bool, field_1: Option<Binary>, field_2: Ascii<1>, field_3: Timestamp, field_4: TimeOfDay });
    record!(Record3 Record3View "Record3" { field_0: String });
    record!(Record4 Record4View "Record4" { field_0: Fixed<10>, field_1: f64, field_2: u64 });
}

mod s7 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: f64, field_1: Option<Timestamp>, field_2: u16, field_3: Decimal64, field_4: Option<Box<Record0>>, field_5: u32 });
}

mod s8 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<bool>, field_1: Option<i8>, field_2: Option<i16>, field_3: i32, field_4: Option<i64>, field_5: Option<u8>, field_6: Option<u16>, field_7: u32, field_8: Option<u64>, field_9: f32, field_10: Option<f64>, field_11: Decimal64, field_12: Fixed<2>, field_13: Option<Timestamp>, field_14: TimeOfDay, field_15: Option<char>, field_16: Ascii<4>, field_17: String, field_18: Binary, field_19: Enum0, field_20: Vec<u64>, field_21: Option<Box<Record1>>, field_22: i32, field_23: i8, field_24: i16, field_25: TimeOfDay, field_26: u32, field_27: u16, field_28: f32, field_29: Option<i64>, field_30: Option<String> });
    record!(message Record1 Record1View "Record1" { field_0: Option<Decimal64>, field_1: i16, field_2: i32, field_3: Option<u64>, field_4: i32, field_5: Option<u8> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Vec<Decimal64>, field_1: i32, field_2: Option<i64>, field_3: Option<Binary>, field_4: Fixed<7>, field_5: Option<u64>, field_6: Vec<i8>, field_7: f64, field_8: Option<Box<Record2>> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 72, Symbol_1 = 73, Symbol_2 = 75, Symbol_3 = 78, Symbol_4 = 80, Symbol_5 = 81, Symbol_6 = 83, Symbol_7 = 85, Symbol_8 = 88 });
}

mod s9 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool });
}

mod s10 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<u16>, field_1: Option<u16>, field_2: String, field_3: f32, field_4: Vec<u32>, field_5: f32, field_6: Option<Decimal64>, field_7: bool, field_8: Option<char>, field_9: Option<u16>, field_10: Option<u16> });
    record!(message Record1 Record1View "Record1" { field_0: Enum0, field_1: i64, field_2: Option<i8>, field_3: Option<Vec<f32>> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<Box<Union0>>, field_1: Option<u16>, field_2: TimeOfDay, field_3: Option<Fixed<1>>, field_4: i64, field_5: Binary, field_6: i16, field_7: Option<Timestamp>, field_8: Fixed<1>, field_9: Timestamp });
    record!(message Record3 Record3View "Record3" { field_0: Option<Decimal64>, field_1: Fixed<15>, field_2: f32, field_3: String, field_4: i16 });
    record!(message Record4 Record4View "Record4" { field_0: Ascii<6>, field_1: TimeOfDay, field_2: Option<u32>, field_3: i64, field_4: Fixed<12>, field_5: Decimal64, field_6: Vec<bool>, field_7: u8, field_8: Option<i32> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 683, Symbol_1 = 686 });
    union!(Union0 Union0View { Record0, Record1, Record2 });
}

mod s11 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: i64, field_1: Option<i64>, field_2: bool, field_3: Binary, field_4: u64, field_5: i16, field_6: Decimal64 });
    record!(Record1 Record1View "Record1" { field_0: Option<u8>, field_1: Option<Enum0>, field_2: f64, field_3: Ascii<13> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<Enum0>, field_1: f32, field_2: String });
    record!(message Record3 Record3View "Record3" { field_0: Option<u64>, field_1: bool, field_2: Option<Ascii<10>>, field_3: Option<Enum0> });
    record!(message Record4 Record4View "Record4" { field_0: f64, field_1: Option<Decimal64>, field_2: char });
    record!(Record5 Record5View "sample.market_5.Record5" { field_0: u8, field_1: bool, field_2: Vec<Option<u64>>, field_3: String, field_4: Timestamp, field_5: f64, field_6: Enum1 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 9, Symbol_1 = 10, Symbol_2 = 12, Symbol_3 = 13, Symbol_4 = 16, Symbol_5 = 18, Symbol_6 = 21, Symbol_7 = 22 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = -509, Symbol_1 = -507, Symbol_2 = -504, Symbol_3 = -501, Symbol_4 = -498, Symbol_5 = -497, Symbol_6 = -494, Symbol_7 = -491, Symbol_8 = -489, Symbol_9 = -487, Symbol_10 = -484, Symbol_11 = -481 });
}

mod s12 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: i8, field_2: Option<i16>, field_3: i32, field_4: i64, field_5: Option<u8>, field_6: Option<u16>, field_7: Option<u32>, field_8: u64, field_9: Option<f32>, field_10: f64, field_11: Option<Decimal64>, field_12: Fixed<10>, field_13: Timestamp, field_14: Option<TimeOfDay>, field_15: char, field_16: Ascii<1>, field_17: String, field_18: Binary, field_19: Option<Enum1>, field_20: Vec<i64>, field_21: Option<Box<Union0>>, field_22: u32, field_23: Binary, field_24: u32 });
    record!(message Record1 Record1View "Record1" { field_0: u64 });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: f64, field_1: bool, field_2: Option<bool>, field_3: String, field_4: Option<Enum1> });
    record!(message Record3 Record3View "Record3" { field_0: String, field_1: Option<TimeOfDay>, field_2: Binary, field_3: Option<f32>, field_4: Binary, field_5: i8, field_6: Option<u64>, field_7: Option<Fixed<12>>, field_8: i16, field_9: f32, field_10: Timestamp });
    record!(message Record4 Record4View "Record4" { field_0: f64, field_1: String, field_2: Option<u64>, field_3: i64 });
    record!(Record5 Record5View "sample.market_5.Record5" {  });
    enumeration!(Enum1 "Enum1" { Symbol_0 = 870, Symbol_1 = 873 });
    union!(Union0 Union0View { Record2, Record3, Record4 });
}

mod s13 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<Box<Union0>>, field_1: u32, field_2: u8, field_3: Enum1, field_4: Ascii<4>, field_5: u32, field_6: Option<Timestamp>, field_7: Decimal64, field_8: bool, field_9: i64 });
    record!(Record1 Record1View "Record1" { field_0: Vec<Option<u32>>, field_1: Vec<bool>, field_2: Timestamp, field_3: Option<i8>, field_4: char, field_5: f32, field_6: u64, field_7: Vec<Option<bool>>, field_8: f32, field_9: String });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<i16>, field_1: Option<i8>, field_2: Option<i16>, field_3: Option<Timestamp>, field_4: u32 });
    record!(message Record3 Record3View "Record3" { field_0: Option<Vec<Decimal64>>, field_1: u64, field_2: Option<i16>, field_3: Record1, field_4: Ascii<9> });
    record!(message Record4 Record4View "Record4" { field_0: Decimal64, field_1: String, field_2: Fixed<3>, field_3: String });
    record!(message Record5 Record5View "sample.market_5.Record5" { field_0: Timestamp, field_1: char, field_2: Option<i8>, field_3: Enum2, field_4: Vec<Enum3>, field_5: Option<Binary>, field_6: Option<Box<Union1>>, field_7: u16, field_8: i8, field_9: i32, field_10: i64 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = 210, Symbol_1 = 213, Symbol_2 = 214, Symbol_3 = 216, Symbol_4 = 219, Symbol_5 = 220, Symbol_6 = 222, Symbol_7 = 223, Symbol_8 = 226, Symbol_9 = 228 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 597, Symbol_1 = 599, Symbol_2 = 600, Symbol_3 = 601 });
    enumeration!(Enum3 "Enum3" { Symbol_0 = 314, Symbol_1 = 317, Symbol_2 = 319, Symbol_3 = 321, Symbol_4 = 322, Symbol_5 = 325, Symbol_6 = 326, Symbol_7 = 329, Symbol_8 = 332, Symbol_9 = 335, Symbol_10 = 337, Symbol_11 = 339, Symbol_12 = 341, Symbol_13 = 344, Symbol_14 = 347, Symbol_15 = 349, Symbol_16 = 350, Symbol_17 = 351, Symbol_18 = 353, Symbol_19 = 354, Symbol_20 = 355, Symbol_21 = 357, Symbol_22 = 359, Symbol_23 = 362, Symbol_24 = 363, Symbol_25 = 366, Symbol_26 = 368, Symbol_27 = 370, Symbol_28 = 373, Symbol_29 = 374, Symbol_30 = 376, Symbol_31 = 377, Symbol_32 = 380, Symbol_33 = 382, Symbol_34 = 384, Symbol_35 = 386, Symbol_36 = 389, Symbol_37 = 391, Symbol_38 = 394, Symbol_39 = 395, Symbol_40 = 398, Symbol_41 = 399, Symbol_42 = 401, Symbol_43 = 402, Symbol_44 = 405, Symbol_45 = 406, Symbol_46 = 409, Symbol_47 = 411, Symbol_48 = 414, Symbol_49 = 415, Symbol_50 = 416, Symbol_51 = 418, Symbol_52 = 420, Symbol_53 = 422, Symbol_54 = 424, Symbol_55 = 427, Symbol_56 = 429, Symbol_57 = 432, Symbol_58 = 435, Symbol_59 = 438, Symbol_60 = 441, Symbol_61 = 442, Symbol_62 = 444, Symbol_63 = 446, Symbol_64 = 447, Symbol_65 = 450, Symbol_66 = 453, Symbol_67 = 455, Symbol_68 = 458, Symbol_69 = 459, Symbol_70 = 461, Symbol_71 = 463, Symbol_72 = 465, Symbol_73 = 467, Symbol_74 = 470, Symbol_75 = 472, Symbol_76 = 473, Symbol_77 = 474, Symbol_78 = 477, Symbol_79 = 478, Symbol_80 = 479, Symbol_81 = 482, Symbol_82 = 484, Symbol_83 = 485, Symbol_84 = 486, Symbol_85 = 487, Symbol_86 = 489, Symbol_87 = 492, Symbol_88 = 494, Symbol_89 = 496, Symbol_90 = 499, Symbol_91 = 501, Symbol_92 = 503, Symbol_93 = 506, Symbol_94 = 509, Symbol_95 = 512, Symbol_96 = 513, Symbol_97 = 516, Symbol_98 = 517, Symbol_99 = 519, Symbol_100 = 522, Symbol_101 = 523, Symbol_102 = 524, Symbol_103 = 525, Symbol_104 = 526, Symbol_105 = 528, Symbol_106 = 531, Symbol_107 = 532, Symbol_108 = 533, Symbol_109 = 535, Symbol_110 = 538, Symbol_111 = 539, Symbol_112 = 541, Symbol_113 = 542, Symbol_114 = 544, Symbol_115 = 545, Symbol_116 = 547, Symbol_117 = 548, Symbol_118 = 551, Symbol_119 = 553, Symbol_120 = 554, Symbol_121 = 556, Symbol_122 = 558, Symbol_123 = 561, Symbol_124 = 562, Symbol_125 = 564, Symbol_126 = 566, Symbol_127 = 569, Symbol_128 = 570, Symbol_129 = 571, Symbol_130 = 572, Symbol_131 = 575, Symbol_132 = 578, Symbol_133 = 581, Symbol_134 = 584, Symbol_135 = 587, Symbol_136 = 590, Symbol_137 = 593, Symbol_138 = 594, Symbol_139 = 597, Symbol_140 = 599, Symbol_141 = 601, Symbol_142 = 603, Symbol_143 = 605, Symbol_144 = 606, Symbol_145 = 607, Symbol_146 = 610, Symbol_147 = 611, Symbol_148 = 613, Symbol_149 = 614, Symbol_150 = 617, Symbol_151 = 619, Symbol_152 = 622, Symbol_153 = 624, Symbol_154 = 627, Symbol_155 = 628, Symbol_156 = 629, Symbol_157 = 631, Symbol_158 = 632, Symbol_159 = 634, Symbol_160 = 635, Symbol_161 = 637, Symbol_162 = 640, Symbol_163 = 642, Symbol_164 = 644, Symbol_165 = 645, Symbol_166 = 648, Symbol_167 = 651, Symbol_168 = 653, Symbol_169 = 655, Symbol_170 = 657, Symbol_171 = 660, Symbol_172 = 663, Symbol_173 = 666, Symbol_174 = 669, Symbol_175 = 670, Symbol_176 = 672, Symbol_177 = 674, Symbol_178 = 675, Symbol_179 = 676, Symbol_180 = 679, Symbol_181 = 680, Symbol_182 = 681, Symbol_183 = 684, Symbol_184 = 686, Symbol_185 = 689, Symbol_186 = 691, Symbol_187 = 694, Symbol_188 = 695, Symbol_189 = 696, Symbol_190 = 699, Symbol_191 = 702, Symbol_192 = 705, Symbol_193 = 707, Symbol_194 = 708, Symbol_195 = 711, Symbol_196 = 713, Symbol_197 = 714, Symbol_198 = 716, Symbol_199 = 717, Symbol_200 = 720, Symbol_201 = 721, Symbol_202 = 723, Symbol_203 = 725, Symbol_204 = 726, Symbol_205 = 729, Symbol_206 = 732, Symbol_207 = 734, Symbol_208 = 736, Symbol_209 = 737, Symbol_210 = 739, Symbol_211 = 742, Symbol_212 = 744, Symbol_213 = 745, Symbol_214 = 747, Symbol_215 = 750, Symbol_216 = 751, Symbol_217 = 753, Symbol_218 = 754, Symbol_219 = 755, Symbol_220 = 756, Symbol_221 = 758, Symbol_222 = 760, Symbol_223 = 762, Symbol_224 = 765, Symbol_225 = 768, Symbol_226 = 770, Symbol_227 = 773, Symbol_228 = 775, Symbol_229 = 776, Symbol_230 = 779, Symbol_231 = 781, Symbol_232 = 783, Symbol_233 = 784, Symbol_234 = 786, Symbol_235 = 789, Symbol_236 = 790, Symbol_237 = 791, Symbol_238 = 793, Symbol_239 = 795, Symbol_240 = 796, Symbol_241 = 799, Symbol_242 = 801, Symbol_243 = 804, Symbol_244 = 805, Symbol_245 = 808, Symbol_246 = 811, Symbol_247 = 813, Symbol_248 = 814, Symbol_249 = 817, Symbol_250 = 819, Symbol_251 = 821, Symbol_252 = 823, Symbol_253 = 826, Symbol_254 = 828, Symbol_255 = 831, Symbol_256 = 832, Symbol_257 = 833, Symbol_258 = 836, Symbol_259 = 839, Symbol_260 = 840, Symbol_261 = 842, Symbol_262 = 845, Symbol_263 = 846, Symbol_264 = 847, Symbol_265 = 848, Symbol_266 = 851, Symbol_267 = 852, Symbol_268 = 855, Symbol_269 = 858, Symbol_270 = 861, Symbol_271 = 864, Symbol_272 = 865, Symbol_273 = 866, Symbol_274 = 867, Symbol_275 = 868, Symbol_276 = 871, Symbol_277 = 872, Symbol_278 = 875, Symbol_279 = 876, Symbol_280 = 879, Symbol_281 = 882, Symbol_282 = 885, Symbol_283 = 887, Symbol_284 = 888, Symbol_285 = 889, Symbol_286 = 890, Symbol_287 = 893, Symbol_288 = 896, Symbol_289 = 898, Symbol_290 = 900, Symbol_291 = 902, Symbol_292 = 905, Symbol_293 = 908, Symbol_294 = 911, Symbol_295 = 913, Symbol_296 = 916, Symbol_297 = 919, Symbol_298 = 922, Symbol_299 = 924, Symbol_300 = 926, Symbol_301 = 929, Symbol_302 = 931 });
    union!(Union0 Union0View { Record1, Record2, Record3 });
    union!(Union1 Union1View { Record4, Record5 });
}

mod s14 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: u32, field_1: Option<bool>, field_2: Option<char>, field_3: Option<f64>, field_4: TimeOfDay, field_5: Option<i16>, field_6: Ascii<2>, field_7: Fixed<8> });
    record!(Record1 Record1View "Record1" { field_0: String, field_1: Option<i16>, field_2: f64, field_3: u16, field_4: Fixed<9>, field_5: Option<String>, field_6: Option<Vec<Vec<Binary>>>, field_7: Option<bool>, field_8: Option<Box<Union0>> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<Box<Union1>>, field_1: u64, field_2: u64 });
    record!(message Record3 Record3View "Record3" { field_0: Option<String>, field_1: u32, field_2: Option<String>, field_3: f64, field_4: u32, field_5: bool, field_6: Option<Box<Union2>>, field_7: Timestamp, field_8: u16 });
    union!(Union0 Union0View { Record3, Record0 });
    union!(Union1 Union1View { Record3, Record0, Record1 });
    union!(Union2 Union2View { Record1, Record2, Record3 });
}

mod s15 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<f32>, field_1: Ascii<14>, field_2: Option<Decimal64>, field_3: i64 });
    record!(message Record1 Record1View "Record1" { field_0: Option<Enum0>, field_1: Option<u32>, field_2: Enum0, field_3: Option<Binary>, field_4: bool, field_5: Timestamp, field_6: Vec<u32>, field_7: Option<f64>, field_8: bool, field_9: Record0, field_10: Option<u64> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: i64, field_1: Option<f64>, field_2: Option<u16>, field_3: char, field_4: Union0, field_5: Timestamp, field_6: u64, field_7: Option<char>, field_8: Option<i32> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -569, Symbol_1 = -568, Symbol_2 = -565, Symbol_3 = -562, Symbol_4 = -559, Symbol_5 = -557, Symbol_6 = -555 });
    union!(Union0 Union0View { Record1, Record0 });
}

mod s16 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: Option<i8>, field_2: Option<i16>, field_3: i32, field_4: Option<i64>, field_5: Option<u8>, field_6: u16, field_7: u32, field_8: u64, field_9: f32, field_10: f64, field_11: Decimal64, field_12: Option<Fixed<4>>, field_13: Option<Timestamp>, field_14: TimeOfDay, field_15: Option<char>, field_16: Ascii<8>, field_17: Option<String>, field_18: Binary, field_19: Enum1, field_20: Option<Vec<Ascii<4>>>, field_21: Option<Box<Union0>>, field_22: i32 });
    record!(Record1 Record1View "Record1" { field_0: i64, field_1: u64, field_2: Option<Timestamp>, field_3: i8 });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<TimeOfDay>, field_1: Binary, field_2: u16, field_3: Option<Binary>, field_4: Option<TimeOfDay>, field_5: Option<u32>, field_6: Fixed<11>, field_7: Option<f32>, field_8: u8, field_9: i64, field_10: Enum0 });
    record!(message Record3 Record3View "Record3" { field_0: u64, field_1: char, field_2: u64, field_3: Option<char>, field_4: Vec<f64>, field_5: Timestamp, field_6: Enum0, field_7: Option<Binary> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 181, Symbol_1 = 183, Symbol_2 = 184, Symbol_3 = 186, Symbol_4 = 187, Symbol_5 = 189, Symbol_6 = 192, Symbol_7 = 195, Symbol_8 = 197, Symbol_9 = 198, Symbol_10 = 201, Symbol_11 = 202, Symbol_12 = 204, Symbol_13 = 206, Symbol_14 = 207, Symbol_15 = 210, Symbol_16 = 211, Symbol_17 = 212, Symbol_18 = 214, Symbol_19 = 217, Symbol_20 = 220, Symbol_21 = 221, Symbol_22 = 223, Symbol_23 = 224, Symbol_24 = 225, Symbol_25 = 227, Symbol_26 = 229, Symbol_27 = 231, Symbol_28 = 234, Symbol_29 = 236, Symbol_30 = 239, Symbol_31 = 241, Symbol_32 = 242, Symbol_33 = 245, Symbol_34 = 246, Symbol_35 = 247, Symbol_36 = 248, Symbol_37 = 250, Symbol_38 = 253, Symbol_39 = 255, Symbol_40 = 256, Symbol_41 = 258, Symbol_42 = 260, Symbol_43 = 262, Symbol_44 = 263, Symbol_45 = 265, Symbol_46 = 266, Symbol_47 = 268, Symbol_48 = 270, Symbol_49 = 271, Symbol_50 = 272, Symbol_51 = 274, Symbol_52 = 276, Symbol_53 = 277, Symbol_54 = 278, Symbol_55 = 281, Symbol_56 = 283, Symbol_57 = 284, Symbol_58 = 285, Symbol_59 = 288, Symbol_60 = 291, Symbol_61 = 292, Symbol_62 = 294, Symbol_63 = 296, Symbol_64 = 298, Symbol_65 = 299, Symbol_66 = 301, Symbol_67 = 304, Symbol_68 = 307, Symbol_69 = 308, Symbol_70 = 311, Symbol_71 = 313, Symbol_72 = 315, Symbol_73 = 317, Symbol_74 = 318, Symbol_75 = 319, Symbol_76 = 322, Symbol_77 = 323, Symbol_78 = 326, Symbol_79 = 328, Symbol_80 = 330, Symbol_81 = 333, Symbol_82 = 334, Symbol_83 = 337, Symbol_84 = 340, Symbol_85 = 343, Symbol_86 = 344, Symbol_87 = 346, Symbol_88 = 348, Symbol_89 = 349, Symbol_90 = 350, Symbol_91 = 352, Symbol_92 = 354, Symbol_93 = 357, Symbol_94 = 360, Symbol_95 = 361, Symbol_96 = 364, Symbol_97 = 365, Symbol_98 = 366, Symbol_99 = 367, Symbol_100 = 369, Symbol_101 = 371, Symbol_102 = 374, Symbol_103 = 377, Symbol_104 = 380, Symbol_105 = 382, Symbol_106 = 383, Symbol_107 = 384, Symbol_108 = 386, Symbol_109 = 389, Symbol_110 = 392, Symbol_111 = 393, Symbol_112 = 395, Symbol_113 = 398, Symbol_114 = 400, Symbol_115 = 403, Symbol_116 = 406, Symbol_117 = 408, Symbol_118 = 409, Symbol_119 = 410, Symbol_120 = 411, Symbol_121 = 412, Symbol_122 = 415, Symbol_123 = 418, Symbol_124 = 421, Symbol_125 = 422, Symbol_126 = 423, Symbol_127 = 426, Symbol_128 = 427, Symbol_129 = 429, Symbol_130 = 431, Symbol_131 = 434, Symbol_132 = 435, Symbol_133 = 436, Symbol_134 = 439, Symbol_135 = 441, Symbol_136 = 443, Symbol_137 = 444, Symbol_138 = 447, Symbol_139 = 448, Symbol_140 = 450, Symbol_141 = 451, Symbol_142 = 454, Symbol_143 = 457, Symbol_144 = 458, Symbol_145 = 460, Symbol_146 = 462, Symbol_147 = 464, Symbol_148 = 466, Symbol_149 = 469, Symbol_150 = 472, Symbol_151 = 475, Symbol_152 = 478, Symbol_153 = 480, Symbol_154 = 482, Symbol_155 = 485, Symbol_156 = 488, Symbol_157 = 491, Symbol_158 = 494, Symbol_159 = 495, Symbol_160 = 498, Symbol_161 = 499, Symbol_162 = 500, Symbol_163 = 502, Symbol_164 = 504, Symbol_165 = 507, Symbol_166 = 508, Symbol_167 = 511, Symbol_168 = 512, Symbol_169 = 515, Symbol_170 = 516, Symbol_171 = 519, Symbol_172 = 521, Symbol_173 = 524, Symbol_174 = 526, Symbol_175 = 527, Symbol_176 = 530, Symbol_177 = 531, Symbol_178 = 533, Symbol_179 = 536, Symbol_180 = 537, Symbol_181 = 538, Symbol_182 = 541, Symbol_183 = 544, Symbol_184 = 546, Symbol_185 = 548, Symbol_186 = 549, Symbol_187 = 550, Symbol_188 = 552, Symbol_189 = 553, Symbol_190 = 555, Symbol_191 = 556, Symbol_192 = 559, Symbol_193 = 562, Symbol_194 = 565, Symbol_195 = 566, Symbol_196 = 567, Symbol_197 = 570, Symbol_198 = 572, Symbol_199 = 575, Symbol_200 = 578, Symbol_201 = 580, Symbol_202 = 583, Symbol_203 = 584, Symbol_204 = 587, Symbol_205 = 590, Symbol_206 = 592, Symbol_207 = 595, Symbol_208 = 597, Symbol_209 = 598, Symbol_210 = 601, Symbol_211 = 602, Symbol_212 = 603, Symbol_213 = 605, Symbol_214 = 606, Symbol_215 = 607, Symbol_216 = 609, Symbol_217 = 612, Symbol_218 = 613, Symbol_219 = 615, Symbol_220 = 618, Symbol_221 = 620, Symbol_222 = 622, Symbol_223 = 624, Symbol_224 = 626, Symbol_225 = 629, Symbol_226 = 630, Symbol_227 = 633, Symbol_228 = 636, Symbol_229 = 637, Symbol_230 = 639, Symbol_231 = 641, Symbol_232 = 643, Symbol_233 = 646, Symbol_234 = 649, Symbol_235 = 651, Symbol_236 = 654, Symbol_237 = 655, Symbol_238 = 658, Symbol_239 = 659, Symbol_240 = 660, Symbol_241 = 662, Symbol_242 = 665, Symbol_243 = 666, Symbol_244 = 669, Symbol_245 = 671, Symbol_246 = 673, Symbol_247 = 674, Symbol_248 = 675, Symbol_249 = 678, Symbol_250 = 680, Symbol_251 = 683, Symbol_252 = 684, Symbol_253 = 685, Symbol_254 = 688, Symbol_255 = 690, Symbol_256 = 693, Symbol_257 = 696, Symbol_258 = 697, Symbol_259 = 700, Symbol_260 = 703, Symbol_261 = 704, Symbol_262 = 706, Symbol_263 = 709, Symbol_264 = 712, Symbol_265 = 713, Symbol_266 = 715, Symbol_267 = 718, Symbol_268 = 719, Symbol_269 = 720, Symbol_270 = 721, Symbol_271 = 722, Symbol_272 = 725, Symbol_273 = 728, Symbol_274 = 731, Symbol_275 = 733, Symbol_276 = 734, Symbol_277 = 737, Symbol_278 = 739, Symbol_279 = 740, Symbol_280 = 741, Symbol_281 = 743, Symbol_282 = 746, Symbol_283 = 748, Symbol_284 = 749, Symbol_285 = 750, Symbol_286 = 752, Symbol_287 = 755, Symbol_288 = 758, Symbol_289 = 761, Symbol_290 = 763, Symbol_291 = 764, Symbol_292 = 766, Symbol_293 = 768, Symbol_294 = 769, Symbol_295 = 772, Symbol_296 = 773, Symbol_297 = 775, Symbol_298 = 778 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = -937, Symbol_1 = -935, Symbol_2 = -933, Symbol_3 = -931, Symbol_4 = -930, Symbol_5 = -929, Symbol_6 = -927, Symbol_7 = -925, Symbol_8 = -922, Symbol_9 = -920, Symbol_10 = -919, Symbol_11 = -917, Symbol_12 = -915, Symbol_13 = -913, Symbol_14 = -911, Symbol_15 = -909, Symbol_16 = -906, Symbol_17 = -904, Symbol_18 = -902, Symbol_19 = -899, Symbol_20 = -896, Symbol_21 = -894, Symbol_22 = -892, Symbol_23 = -890, Symbol_24 = -888, Symbol_25 = -885, Symbol_26 = -884, Symbol_27 = -881, Symbol_28 = -878, Symbol_29 = -877, Symbol_30 = -875, Symbol_31 = -873, Symbol_32 = -870, Symbol_33 = -868, Symbol_34 = -865, Symbol_35 = -862, Symbol_36 = -861, Symbol_37 = -860, Symbol_38 = -857, Symbol_39 = -856, Symbol_40 = -853, Symbol_41 = -850, Symbol_42 = -849, Symbol_43 = -848, Symbol_44 = -846, Symbol_45 = -845, Symbol_46 = -842, Symbol_47 = -841, Symbol_48 = -840, Symbol_49 = -837, Symbol_50 = -834, Symbol_51 = -831, Symbol_52 = -830, Symbol_53 = -828, Symbol_54 = -826, Symbol_55 = -825, Symbol_56 = -824, Symbol_57 = -822, Symbol_58 = -819, Symbol_59 = -818, Symbol_60 = -817, Symbol_61 = -815, Symbol_62 = -813, Symbol_63 = -811, Symbol_64 = -810, Symbol_65 = -807, Symbol_66 = -806, Symbol_67 = -803, Symbol_68 = -801, Symbol_69 = -800, Symbol_70 = -797, Symbol_71 = -796, Symbol_72 = -795, Symbol_73 = -792, Symbol_74 = -791, Symbol_75 = -789, Symbol_76 = -787, Symbol_77 = -784, Symbol_78 = -783, Symbol_79 = -780, Symbol_80 = -777, Symbol_81 = -776, Symbol_82 = -773, Symbol_83 = -770, Symbol_84 = -769, Symbol_85 = -767, Symbol_86 = -764, Symbol_87 = -762, Symbol_88 = -761, Symbol_89 = -760, Symbol_90 = -757, Symbol_91 = -754, Symbol_92 = -751, Symbol_93 = -749, Symbol_94 = -748, Symbol_95 = -746, Symbol_96 = -744, Symbol_97 = -741, Symbol_98 = -739, Symbol_99 = -738, Symbol_100 = -737, Symbol_101 = -734, Symbol_102 = -731, Symbol_103 = -730, Symbol_104 = -727, Symbol_105 = -725, Symbol_106 = -723, Symbol_107 = -720, Symbol_108 = -718, Symbol_109 = -715, Symbol_110 = -712, Symbol_111 = -711, Symbol_112 = -709, Symbol_113 = -706, Symbol_114 = -705, Symbol_115 = -704, Symbol_116 = -703, Symbol_117 = -700, Symbol_118 = -699, Symbol_119 = -697, Symbol_120 = -696, Symbol_121 = -693, Symbol_122 = -692, Symbol_123 = -689, Symbol_124 = -686, Symbol_125 = -683, Symbol_126 = -680, Symbol_127 = -677, Symbol_128 = -674, Symbol_129 = -673, Symbol_130 = -670, Symbol_131 = -667, Symbol_132 = -664, Symbol_133 = -662, Symbol_134 = -659, Symbol_135 = -657, Symbol_136 = -654, Symbol_137 = -652, Symbol_138 = -649, Symbol_139 = -647, Symbol_140 = -645, Symbol_141 = -643, Symbol_142 = -641, Symbol_143 = -638, Symbol_144 = -637, Symbol_145 = -635, Symbol_146 = -634, Symbol_147 = -632, Symbol_148 = -630, Symbol_149 = -628, Symbol_150 = -625, Symbol_151 = -622, Symbol_152 = -619, Symbol_153 = -618, Symbol_154 = -615, Symbol_155 = -613, Symbol_156 = -612, Symbol_157 = -610, Symbol_158 = -607, Symbol_159 = -605, Symbol_160 = -604, Symbol_161 = -603, Symbol_162 = -602, Symbol_163 = -601, Symbol_164 = -600, Symbol_165 = -597, Symbol_166 = -594, Symbol_167 = -593, Symbol_168 = -592, Symbol_169 = -590, Symbol_170 = -589, Symbol_171 = -587, Symbol_172 = -584, Symbol_173 = -583, Symbol_174 = -582, Symbol_175 = -579, Symbol_176 = -578, Symbol_177 = -577, Symbol_178 = -576, Symbol_179 = -573, Symbol_180 = -570, Symbol_181 = -567, Symbol_182 = -564, Symbol_183 = -563, Symbol_184 = -560, Symbol_185 = -557, Symbol_186 = -555, Symbol_187 = -553, Symbol_188 = -551, Symbol_189 = -549, Symbol_190 = -548, Symbol_191 = -545, Symbol_192 = -543, Symbol_193 = -541, Symbol_194 = -538, Symbol_195 = -536, Symbol_196 = -534, Symbol_197 = -532, Symbol_198 = -530, Symbol_199 = -528, Symbol_200 = -527, Symbol_201 = -524, Symbol_202 = -522, Symbol_203 = -521, Symbol_204 = -518, Symbol_205 = -517, Symbol_206 = -514, Symbol_207 = -513, Symbol_208 = -511, Symbol_209 = -508, Symbol_210 = -507, Symbol_211 = -505, Symbol_212 = -503, Symbol_213 = -500, Symbol_214 = -498, Symbol_215 = -497, Symbol_216 = -495, Symbol_217 = -492, Symbol_218 = -491, Symbol_219 = -489, Symbol_220 = -486, Symbol_221 = -484, Symbol_222 = -482, Symbol_223 = -481, Symbol_224 = -479, Symbol_225 = -478, Symbol_226 = -477, Symbol_227 = -476, Symbol_228 = -474, Symbol_229 = -472, Symbol_230 = -470, Symbol_231 = -469, Symbol_232 = -467, Symbol_233 = -465, Symbol_234 = -463, Symbol_235 = -462, Symbol_236 = -460, Symbol_237 = -457, Symbol_238 = -454, Symbol_239 = -453, Symbol_240 = -450, Symbol_241 = -447, Symbol_242 = -445, Symbol_243 = -442, Symbol_244 = -439, Symbol_245 = -438, Symbol_246 = -436, Symbol_247 = -433, Symbol_248 = -432, Symbol_249 = -429, Symbol_250 = -427, Symbol_251 = -424, Symbol_252 = -422, Symbol_253 = -421, Symbol_254 = -420, Symbol_255 = -418, Symbol_256 = -417, Symbol_257 = -415, Symbol_258 = -413, Symbol_259 = -411, Symbol_260 = -409, Symbol_261 = -406, Symbol_262 = -404, Symbol_263 = -402, Symbol_264 = -399, Symbol_265 = -396, Symbol_266 = -395, Symbol_267 = -394, Symbol_268 = -392, Symbol_269 = -390, Symbol_270 = -387, Symbol_271 = -385, Symbol_272 = -382, Symbol_273 = -380, Symbol_274 = -378, Symbol_275 = -375, Symbol_276 = -373, Symbol_277 = -371, Symbol_278 = -370, Symbol_279 = -367, Symbol_280 = -366, Symbol_281 = -363, Symbol_282 = -361, Symbol_283 = -360, Symbol_284 = -357, Symbol_285 = -356, Symbol_286 = -355, Symbol_287 = -353, Symbol_288 = -351, Symbol_289 = -349, Symbol_290 = -346, Symbol_291 = -343, Symbol_292 = -342, Symbol_293 = -339, Symbol_294 = -337, Symbol_295 = -335, Symbol_296 = -334, Symbol_297 = -331, Symbol_298 = -330, Symbol_299 = -329 });
    union!(Union0 Union0View { Record2, Record3, Record0 });
}

mod s17 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: f64, field_1: TimeOfDay, field_2: Decimal64, field_3: Option<u8> });
    record!(message Record1 Record1View "Record1" { field_0: Record0, field_1: i32 });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Binary, field_1: Union0 });
    record!(message Record3 Record3View "Record3" { field_0: f64, field_1: Option<TimeOfDay>, field_2: u8, field_3: Fixed<14>, field_4: u64, field_5: Option<Enum0> });
    record!(Record4 Record4View "Record4" { field_0: i8, field_1: String, field_2: Decimal64, field_3: char, field_4: Option<bool>, field_5: Option<u16>, field_6: i32 });
    record!(Record5 Record5View "sample.market_5.Record5" { field_0: Option<Ascii<16>>, field_1: bool, field_2: Ascii<16>, field_3: Option<Decimal64>, field_4: i64, field_5: i8, field_6: u32, field_7: Option<String> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -553, Symbol_1 = -552, Symbol_2 = -551, Symbol_3 = -550 });
    union!(Union0 Union0View { Record0, Record1 });
}

mod s18 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: f32, field_2: Option<i16>, field_3: i16, field_4: f32, field_5: Option<u8>, field_6: Option<Enum0>, field_7: Binary, field_8: Option<Vec<i16>> });
    record!(message Record1 Record1View "Record1" { field_0: Record0, field_1: Option<TimeOfDay>, field_2: Binary, field_3: u32, field_4: i8, field_5: u16, field_6: i64, field_7: Fixed<14>, field_8: u8, field_9: Timestamp, field_10: Option<u8> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<Decimal64>, field_1: Binary, field_2: Option<Vec<f32>>, field_3: Fixed<17>, field_4: i64, field_5: bool, field_6: Option<f64> });
    record!(message Record3 Record3View "Record3" { field_0: Option<Box<Record4>> });
    record!(message Record4 Record4View "Record4" { field_0: Option<Timestamp>, field_1: u16, field_2: Option<i8>, field_3: Option<Decimal64>, field_4: Option<i64>, field_5: Fixed<17>, field_6: Decimal64, field_7: Option<u16> });
    record!(message Record5 Record5View "sample.market_5.Record5" { field_0: Option<Fixed<14>>, field_1: Enum0, field_2: Union0 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 406, Symbol_1 = 407, Symbol_2 = 410, Symbol_3 = 413, Symbol_4 = 414, Symbol_5 = 417 });
    union!(Union0 Union0View { Record4, Record0 });
}

mod s19 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: i32, field_1: TimeOfDay, field_2: Option<Fixed<17>>, field_3: Option<i32>, field_4: Vec<Enum1> });
    record!(Record1 Record1View "Record1" { field_0: i16, field_1: TimeOfDay, field_2: Option<Binary>, field_3: i64, field_4: Option<Ascii<13>>, field_5: char, field_6: i64, field_7: Binary, field_8: Fixed<2> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Decimal64, field_1: bool, field_2: i8, field_3: Option<Vec<Option<Timestamp>>>, field_4: f32, field_5: f64, field_6: u32, field_7: Option<i64>, field_8: Decimal64 });
    record!(message Record3 Record3View "Record3" { field_0: i16, field_1: bool, field_2: Option<Binary>, field_3: String, field_4: Option<Vec<i64>>, field_5: i16, field_6: TimeOfDay, field_7: i8 });
    record!(Record4 Record4View "Record4" { field_0: f64, field_1: Vec<Option<char>>, field_2: Option<String>, field_3: u32, field_4: Enum1, field_5: u16 });
    record!(Record5 Record5View "sample.market_5.Record5" { field_0: i64, field_1: Binary, field_2: Fixed<10> });
    enumeration!(Enum1 "Enum1" { Symbol_0 = -211, Symbol_1 = -210, Symbol_2 = -207, Symbol_3 = -206, Symbol_4 = -204, Symbol_5 = -201, Symbol_6 = -200, Symbol_7 = -198, Symbol_8 = -195 });
}

mod s20 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: i8, field_2: Option<i16>, field_3: i32, field_4: Option<i64>, field_5: u8, field_6: Option<u16>, field_7: u32, field_8: u64, field_9: Option<f32>, field_10: f64, field_11: Decimal64, field_12: Fixed<0>, field_13: Option<Timestamp>, field_14: Option<TimeOfDay>, field_15: char, field_16: Option<Ascii<5>>, field_17: Option<String>, field_18: Binary, field_19: Enum0, field_20: Vec<f64>, field_21: Option<Box<Record0>>, field_22: Fixed<12>, field_23: Option<u64> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -278, Symbol_1 = -277, Symbol_2 = -276, Symbol_3 = -273, Symbol_4 = -272, Symbol_5 = -271, Symbol_6 = -269, Symbol_7 = -268, Symbol_8 = -265, Symbol_9 = -263, Symbol_10 = -261, Symbol_11 = -259, Symbol_12 = -256, Symbol_13 = -255, Symbol_14 = -253, Symbol_15 = -250, Symbol_16 = -247, Symbol_17 = -246, Symbol_18 = -245, Symbol_19 = -243, Symbol_20 = -242, Symbol_21 = -239, Symbol_22 = -237, Symbol_23 = -234, Symbol_24 = -233, Symbol_25 = -230, Symbol_26 = -228, Symbol_27 = -227, Symbol_28 = -226, Symbol_29 = -224, Symbol_30 = -223, Symbol_31 = -220, Symbol_32 = -218, Symbol_33 = -216, Symbol_34 = -213, Symbol_35 = -212, Symbol_36 = -210, Symbol_37 = -208, Symbol_38 = -207, Symbol_39 = -204, Symbol_40 = -201, Symbol_41 = -200, Symbol_42 = -197, Symbol_43 = -194, Symbol_44 = -192, Symbol_45 = -191, Symbol_46 = -188, Symbol_47 = -185, Symbol_48 = -184, Symbol_49 = -182, Symbol_50 = -181, Symbol_51 = -180, Symbol_52 = -178, Symbol_53 = -176, Symbol_54 = -173, Symbol_55 = -171, Symbol_56 = -169, Symbol_57 = -166, Symbol_58 = -165, Symbol_59 = -164, Symbol_60 = -163, Symbol_61 = -160, Symbol_62 = -158, Symbol_63 = -156, Symbol_64 = -155, Symbol_65 = -152, Symbol_66 = -150, Symbol_67 = -147, Symbol_68 = -145, Symbol_69 = -142, Symbol_70 = -139, Symbol_71 = -138, Symbol_72 = -135, Symbol_73 = -132, Symbol_74 = -131, Symbol_75 = -128, Symbol_76 = -126, Symbol_77 = -123, Symbol_78 = -122, Symbol_79 = -120, Symbol_80 = -118, Symbol_81 = -116, Symbol_82 = -113, Symbol_83 = -112, Symbol_84 = -109, Symbol_85 = -108, Symbol_86 = -106, Symbol_87 = -105, Symbol_88 = -103, Symbol_89 = -102, Symbol_90 = -101, Symbol_91 = -99, Symbol_92 = -98, Symbol_93 = -97, Symbol_94 = -94, Symbol_95 = -91, Symbol_96 = -89, Symbol_97 = -88, Symbol_98 = -85, Symbol_99 = -83, Symbol_100 = -81, Symbol_101 = -80, Symbol_102 = -78, Symbol_103 = -75, Symbol_104 = -73, Symbol_105 = -72, Symbol_106 = -70, Symbol_107 = -69, Symbol_108 = -67, Symbol_109 = -65, Symbol_110 = -63, Symbol_111 = -60, Symbol_112 = -58, Symbol_113 = -57, Symbol_114 = -55, Symbol_115 = -54, Symbol_116 = -53, Symbol_117 = -52, Symbol_118 = -49, Symbol_119 = -46, Symbol_120 = -43, Symbol_121 = -40, Symbol_122 = -37, Symbol_123 = -34, Symbol_124 = -32, Symbol_125 = -29, Symbol_126 = -26, Symbol_127 = -25, Symbol_128 = -23, Symbol_129 = -22, Symbol_130 = -20, Symbol_131 = -18, Symbol_132 = -16, Symbol_133 = -14, Symbol_134 = -11, Symbol_135 = -10, Symbol_136 = -7, Symbol_137 = -4, Symbol_138 = -3, Symbol_139 = -1, Symbol_140 = 2, Symbol_141 = 3, Symbol_142 = 4, Symbol_143 = 6, Symbol_144 = 7, Symbol_145 = 9, Symbol_146 = 12, Symbol_147 = 13, Symbol_148 = 15, Symbol_149 = 17, Symbol_150 = 19, Symbol_151 = 20, Symbol_152 = 23, Symbol_153 = 26, Symbol_154 = 28, Symbol_155 = 29, Symbol_156 = 30, Symbol_157 = 33, Symbol_158 = 36, Symbol_159 = 38, Symbol_160 = 40, Symbol_161 = 41, Symbol_162 = 42, Symbol_163 = 44, Symbol_164 = 46, Symbol_165 = 48, Symbol_166 = 51, Symbol_167 = 54, Symbol_168 = 56, Symbol_169 = 59, Symbol_170 = 62, Symbol_171 = 64, Symbol_172 = 65, Symbol_173 = 67, Symbol_174 = 68, Symbol_175 = 70, Symbol_176 = 71, Symbol_177 = 73, Symbol_178 = 75, Symbol_179 = 76, Symbol_180 = 77, Symbol_181 = 78, Symbol_182 = 81, Symbol_183 = 83, Symbol_184 = 84, Symbol_185 = 87, Symbol_186 = 90, Symbol_187 = 93, Symbol_188 = 95, Symbol_189 = 97, Symbol_190 = 98, Symbol_191 = 101, Symbol_192 = 104, Symbol_193 = 107, Symbol_194 = 108, Symbol_195 = 111, Symbol_196 = 113, Symbol_197 = 115, Symbol_198 = 116, Symbol_199 = 118, Symbol_200 = 119, Symbol_201 = 121, Symbol_202 = 122, Symbol_203 = 125, Symbol_204 = 126, Symbol_205 = 127, Symbol_206 = 128, Symbol_207 = 131, Symbol_208 = 134, Symbol_209 = 135, Symbol_210 = 137, Symbol_211 = 140, Symbol_212 = 141, Symbol_213 = 144, Symbol_214 = 146, Symbol_215 = 148, Symbol_216 = 149, Symbol_217 = 152, Symbol_218 = 154, Symbol_219 = 155, Symbol_220 = 158, Symbol_221 = 159, Symbol_222 = 160, Symbol_223 = 161, Symbol_224 = 164, Symbol_225 = 166, Symbol_226 = 168, Symbol_227 = 170, Symbol_228 = 173, Symbol_229 = 176, Symbol_230 = 178, Symbol_231 = 180, Symbol_232 = 183, Symbol_233 = 185, Symbol_234 = 188, Symbol_235 = 191, Symbol_236 = 194, Symbol_237 = 195, Symbol_238 = 196, Symbol_239 = 199, Symbol_240 = 200, Symbol_241 = 201, Symbol_242 = 204, Symbol_243 = 207, Symbol_244 = 209, Symbol_245 = 211, Symbol_246 = 214, Symbol_247 = 217, Symbol_248 = 218, Symbol_249 = 219, Symbol_250 = 221, Symbol_251 = 224, Symbol_252 = 227, Symbol_253 = 230, Symbol_254 = 233, Symbol_255 = 236, Symbol_256 = 237, Symbol_257 = 238, Symbol_258 = 240, Symbol_259 = 243, Symbol_260 = 244, Symbol_261 = 245, Symbol_262 = 248, Symbol_263 = 249, Symbol_264 = 252, Symbol_265 = 254, Symbol_266 = 257, Symbol_267 = 258, Symbol_268 = 261 });
}

mod s21 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: u16, field_1: u16, field_2: Fixed<9>, field_3: Option<i32>, field_4: u32, field_5: Option<f64> });
    record!(message Record1 Record1View "Record1" { field_0: TimeOfDay, field_1: i8, field_2: Fixed<2>, field_3: i8, field_4: Decimal64, field_5: Option<u64> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<Ascii<7>>, field_1: i8, field_2: Option<String>, field_3: i32 });
    record!(message Record3 Record3View "Record3" { field_0: Option<Fixed<0>>, field_1: Option<i8>, field_2: Vec<f32>, field_3: i8, field_4: i64, field_5: TimeOfDay, field_6: Option<Timestamp>, field_7: Enum0 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 302, Symbol_1 = 303, Symbol_2 = 305, Symbol_3 = 308, Symbol_4 = 309, Symbol_5 = 311, Symbol_6 = 314 });
}

mod s22 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: TimeOfDay, field_1: i64, field_2: Option<Vec<Union0>>, field_3: Option<u64>, field_4: u8, field_5: u16, field_6: Option<i16>, field_7: String });
    record!(message Record1 Record1View "Record1" { field_0: Option<Box<Record1>>, field_1: Enum3, field_2: Decimal64, field_3: Timestamp });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<i32>, field_1: i32, field_2: TimeOfDay, field_3: u16, field_4: Fixed<7>, field_5: Option<String>, field_6: Option<bool>, field_7: Option<Ascii<9>>, field_8: i16 });
    record!(message Record3 Record3View "Record3" { field_0: Option<f32>, field_1: bool, field_2: i64, field_3: i8, field_4: Vec<Option<Fixed<16>>>, field_5: Option<f32>, field_6: char, field_7: char, field_8: Option<Binary> });
    record!(Record4 Record4View "Record4" { field_0: String, field_1: Timestamp, field_2: Option<Enum2>, field_3: Union1, field_4: Binary, field_5: u16, field_6: Union2, field_7: u32, field_8: Option<u32>, field_9: Decimal64, field_10: Option<Ascii<3>> });
    record!(message Record5 Record5View "sample.market_5.Record5" { field_0: Option<u16>, field_1: Option<Decimal64>, field_2: u64, field_3: Option<i64>, field_4: String, field_5: i64, field_6: Option<bool> });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 760 });
    enumeration!(Enum3 "Enum3" { Symbol_0 = -462, Symbol_1 = -459, Symbol_2 = -458, Symbol_3 = -455, Symbol_4 = -454, Symbol_5 = -452, Symbol_6 = -451, Symbol_7 = -449, Symbol_8 = -446 });
    union!(Union0 Union0View { Record3, Record4 });
    union!(Union1 Union1View { Record1, Record2 });
    union!(Union2 Union2View { Record0, Record1 });
}

mod s23 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: i16, field_1: Option<Timestamp> });
    record!(message Record1 Record1View "Record1" { field_0: Option<u16>, field_1: Ascii<12> });
    record!(message Record2 Record2View "sample.market_2.Record2" {  });
}

mod s24 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<bool>, field_1: i8, field_2: i16, field_3: i32, field_4: i64, field_5: Option<u8>, field_6: u16, field_7: Option<u32>, field_8: Option<u64>, field_9: Option<f32>, field_10: Option<f64>, field_11: Decimal64, field_12: Option<Fixed<2>>, field_13: Timestamp, field_14: TimeOfDay, field_15: char, field_16: Ascii<8>, field_17: String, field_18: Option<Binary>, field_19: Enum2, field_20: Vec<u8>, field_21: Option<Box<Union0>>, field_22: Option<i8>, field_23: Timestamp, field_24: Option<TimeOfDay>, field_25: Option<Enum2>, field_26: Option<Fixed<13>>, field_27: u32, field_28: String, field_29: Option<u16>, field_30: Option<i8>, field_31: Decimal64 });
    record!(Record1 Record1View "Record1" { field_0: i16, field_1: i64, field_2: i32, field_3: Option<u16>, field_4: Option<u64>, field_5: Vec<Ascii<5>>, field_6: Option<Binary> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<String>, field_1: i16, field_2: u16, field_3: Option<Box<Union1>>, field_4: Option<Timestamp>, field_5: i16, field_6: Option<u8>, field_7: Vec<bool>, field_8: String, field_9: Option<i8> });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = -590, Symbol_1 = -588, Symbol_2 = -585, Symbol_3 = -583 });
    union!(Union0 Union0View { Record2, Record0, Record1 });
    union!(Union1 Union1View { Record1, Record2, Record0 });
}

mod s25 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: i32, field_1: f32, field_2: Option<Decimal64>, field_3: i16, field_4: Option<Timestamp>, field_5: i32, field_6: Option<bool> });
    record!(message Record1 Record1View "Record1" { field_0: Binary, field_1: Fixed<13>, field_2: Vec<char>, field_3: Option<Vec<Option<i16>>>, field_4: i16, field_5: i16, field_6: Option<i16>, field_7: Option<u32> });
    record!(message Record2 Record2View "sample.market_2.Record2" {  });
}

mod s26 {
    use super::*;
    record!(message Record0 Record0View "Record0" {  });
    record!(Record1 Record1View "Record1" { field_0: bool, field_1: Option<Timestamp> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: TimeOfDay, field_1: Option<Decimal64>, field_2: Vec<char> });
}

mod s27 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: u64, field_1: Option<Decimal64>, field_2: TimeOfDay, field_3: Option<Vec<Option<i64>>>, field_4: Option<Box<Union0>> });
    record!(Record1 Record1View "Record1" { field_0: i32, field_1: Option<u16>, field_2: String, field_3: char, field_4: u16, field_5: Vec<Enum0>, field_6: Vec<Option<f64>>, field_7: i64, field_8: Option<char>, field_9: Option<TimeOfDay>, field_10: u32 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 314, Symbol_1 = 316 });
    union!(Union0 Union0View { Record0, Record1 });
}

mod s28 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<bool>, field_1: i8, field_2: i16, field_3: i32, field_4: Option<i64>, field_5: Option<u8>, field_6: u16, field_7: Option<u32>, field_8: u64, field_9: Option<f32>, field_10: Option<f64>, field_11: Decimal64, field_12: Fixed<7>, field_13: Timestamp, field_14: TimeOfDay, field_15: char, field_16: Ascii<6>, field_17: Option<String>, field_18: Binary, field_19: Enum2, field_20: Option<Vec<Option<u16>>>, field_21: Option<Box<Record1>>, field_22: char, field_23: Option<Binary>, field_24: bool, field_25: i16, field_26: Option<Fixed<16>> });
    record!(Record1 Record1View "Record1" { field_0: String, field_1: i64, field_2: u8, field_3: bool });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<u8>, field_1: f32 });
    record!(message Record3 Record3View "Record3" { field_0: Enum0, field_1: bool, field_2: Enum0, field_3: i16, field_4: i32, field_5: Enum1, field_6: u16, field_7: Enum2, field_8: Vec<Enum0>, field_9: Union0, field_10: Vec<Enum2> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -86, Symbol_1 = -84, Symbol_2 = -82, Symbol_3 = -80, Symbol_4 = -77, Symbol_5 = -74, Symbol_6 = -73, Symbol_7 = -71, Symbol_8 = -69 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = -973, Symbol_1 = -972, Symbol_2 = -971, Symbol_3 = -969, Symbol_4 = -968, Symbol_5 = -967, Symbol_6 = -964, Symbol_7 = -961, Symbol_8 = -959, Symbol_9 = -956, Symbol_10 = -953, Symbol_11 = -952, Symbol_12 = -951, Symbol_13 = -949, Symbol_14 = -948, Symbol_15 = -945, Symbol_16 = -942, Symbol_17 = -939, Symbol_18 = -938, Symbol_19 = -936, Symbol_20 = -935, Symbol_21 = -932, Symbol_22 = -929, Symbol_23 = -926, Symbol_24 = -925, Symbol_25 = -924, Symbol_26 = -923, Symbol_27 = -921, Symbol_28 = -918, Symbol_29 = -917, Symbol_30 = -914, Symbol_31 = -913, Symbol_32 = -911, Symbol_33 = -908, Symbol_34 = -907, Symbol_35 = -905, Symbol_36 = -904, Symbol_37 = -902, Symbol_38 = -899, Symbol_39 = -896, Symbol_40 = -893, Symbol_41 = -890, Symbol_42 = -888, Symbol_43 = -886, Symbol_44 = -883, Symbol_45 = -880, Symbol_46 = -877, Symbol_47 = -876, Symbol_48 = -875, Symbol_49 = -874, Symbol_50 = -871, Symbol_51 = -870, Symbol_52 = -867, Symbol_53 = -866, Symbol_54 = -863, Symbol_55 = -862, Symbol_56 = -860, Symbol_57 = -859, Symbol_58 = -856, Symbol_59 = -854, Symbol_60 = -852, Symbol_61 = -851, Symbol_62 = -848, Symbol_63 = -846, Symbol_64 = -845, Symbol_65 = -843, Symbol_66 = -841, Symbol_67 = -838, Symbol_68 = -837, Symbol_69 = -836, Symbol_70 = -834, Symbol_71 = -833, Symbol_72 = -831, Symbol_73 = -829, Symbol_74 = -826, Symbol_75 = -825, Symbol_76 = -824, Symbol_77 = -821, Symbol_78 = -820, Symbol_79 = -817, Symbol_80 = -814, Symbol_81 = -811, Symbol_82 = -809, Symbol_83 = -808, Symbol_84 = -805, Symbol_85 = -803, Symbol_86 = -801, Symbol_87 = -798, Symbol_88 = -795, Symbol_89 = -792, Symbol_90 = -791, Symbol_91 = -789, Symbol_92 = -787, Symbol_93 = -785, Symbol_94 = -782, Symbol_95 = -781, Symbol_96 = -778, Symbol_97 = -776, Symbol_98 = -775, Symbol_99 = -772, Symbol_100 = -770, Symbol_101 = -767, Symbol_102 = -766, Symbol_103 = -765, Symbol_104 = -763, Symbol_105 = -760, Symbol_106 = -757, Symbol_107 = -754, Symbol_108 = -751, Symbol_109 = -748, Symbol_110 = -747, Symbol_111 = -745, Symbol_112 = -744, Symbol_113 = -742, Symbol_114 = -739, Symbol_115 = -736, Symbol_116 = -733, Symbol_117 = -731, Symbol_118 = -729, Symbol_119 = -728, Symbol_120 = -725, Symbol_121 = -722, Symbol_122 = -719, Symbol_123 = -716, Symbol_124 = -714, Symbol_125 = -711, Symbol_126 = -710, Symbol_127 = -709, Symbol_128 = -706, Symbol_129 = -705, Symbol_130 = -703, Symbol_131 = -700, Symbol_132 = -697, Symbol_133 = -695, Symbol_134 = -693, Symbol_135 = -692, Symbol_136 = -690, Symbol_137 = -687, Symbol_138 = -685, Symbol_139 = -683, Symbol_140 = -680, Symbol_141 = -679, Symbol_142 = -676, Symbol_143 = -674, Symbol_144 = -671, Symbol_145 = -670, Symbol_146 = -669, Symbol_147 = -666, Symbol_148 = -664, Symbol_149 = -662, Symbol_150 = -659, Symbol_151 = -657, Symbol_152 = -655, Symbol_153 = -653, Symbol_154 = -652, Symbol_155 = -650, Symbol_156 = -647, Symbol_157 = -644, Symbol_158 = -643, Symbol_159 = -640, Symbol_160 = -638, Symbol_161 = -636, Symbol_162 = -633, Symbol_163 = -630, Symbol_164 = -628, Symbol_165 = -626, Symbol_166 = -623, Symbol_167 = -620, Symbol_168 = -619, Symbol_169 = -616, Symbol_170 = -613, Symbol_171 = -610, Symbol_172 = -608, Symbol_173 = -607, Symbol_174 = -606, Symbol_175 = -605, Symbol_176 = -603, Symbol_177 = -602, Symbol_178 = -599, Symbol_179 = -597, Symbol_180 = -595, Symbol_181 = -593, Symbol_182 = -591, Symbol_183 = -589, Symbol_184 = -588, Symbol_185 = -585, Symbol_186 = -582, Symbol_187 = -581, Symbol_188 = -578, Symbol_189 = -576, Symbol_190 = -573, Symbol_191 = -572, Symbol_192 = -571, Symbol_193 = -569, Symbol_194 = -566, Symbol_195 = -564, Symbol_196 = -562, Symbol_197 = -561, Symbol_198 = -558, Symbol_199 = -556, Symbol_200 = -555, Symbol_201 = -552, Symbol_202 = -551, Symbol_203 = -550, Symbol_204 = -549, Symbol_205 = -548, Symbol_206 = -547, Symbol_207 = -546, Symbol_208 = -544, Symbol_209 = -542, Symbol_210 = -540, Symbol_211 = -539, Symbol_212 = -537, Symbol_213 = -535, Symbol_214 = -534, Symbol_215 = -531, Symbol_216 = -529, Symbol_217 = -528, Symbol_218 = -527, Symbol_219 = -526, Symbol_220 = -524, Symbol_221 = -523, Symbol_222 = -520, Symbol_223 = -517, Symbol_224 = -516, Symbol_225 = -515, Symbol_226 = -513, Symbol_227 = -512, Symbol_228 = -510, Symbol_229 = -508, Symbol_230 = -505, Symbol_231 = -502, Symbol_232 = -499, Symbol_233 = -498, Symbol_234 = -495, Symbol_235 = -493, Symbol_236 = -491, Symbol_237 = -489, Symbol_238 = -488, Symbol_239 = -486, Symbol_240 = -483, Symbol_241 = -482, Symbol_242 = -480, Symbol_243 = -479, Symbol_244 = -477, Symbol_245 = -476, Symbol_246 = -473, Symbol_247 = -471, Symbol_248 = -469, Symbol_249 = -466, Symbol_250 = -463, Symbol_251 = -462, Symbol_252 = -459, Symbol_253 = -457, Symbol_254 = -456, Symbol_255 = -454, Symbol_256 = -451 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 425, Symbol_1 = 426, Symbol_2 = 428, Symbol_3 = 430, Symbol_4 = 433, Symbol_5 = 434, Symbol_6 = 435, Symbol_7 = 437, Symbol_8 = 440 });
    union!(Union0 Union0View { Record1, Record2, Record0 });
}

mod s29 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<u32>, field_1: String, field_2: f64, field_3: Option<u16>, field_4: u16, field_5: TimeOfDay, field_6: Option<Enum2>, field_7: Option<Decimal64>, field_8: String, field_9: Enum1 });
    record!(Record1 Record1View "Record1" { field_0: TimeOfDay, field_1: i16, field_2: u64 });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: i64 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = -173, Symbol_1 = -171, Symbol_2 = -168, Symbol_3 = -167, Symbol_4 = -166, Symbol_5 = -164, Symbol_6 = -161, Symbol_7 = -160, Symbol_8 = -158, Symbol_9 = -155, Symbol_10 = -153, Symbol_11 = -151 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 522, Symbol_1 = 524, Symbol_2 = 526, Symbol_3 = 527, Symbol_4 = 530, Symbol_5 = 532, Symbol_6 = 534, Symbol_7 = 537, Symbol_8 = 539, Symbol_9 = 540, Symbol_10 = 541, Symbol_11 = 542, Symbol_12 = 543, Symbol_13 = 546, Symbol_14 = 548, Symbol_15 = 551, Symbol_16 = 552, Symbol_17 = 553, Symbol_18 = 555, Symbol_19 = 557, Symbol_20 = 558, Symbol_21 = 561, Symbol_22 = 562, Symbol_23 = 565, Symbol_24 = 568, Symbol_25 = 569, Symbol_26 = 572, Symbol_27 = 574, Symbol_28 = 577, Symbol_29 = 578, Symbol_30 = 581, Symbol_31 = 582, Symbol_32 = 584, Symbol_33 = 587, Symbol_34 = 589, Symbol_35 = 590, Symbol_36 = 591, Symbol_37 = 593, Symbol_38 = 595, Symbol_39 = 596, Symbol_40 = 597, Symbol_41 = 600, Symbol_42 = 603, Symbol_43 = 605, Symbol_44 = 606, Symbol_45 = 609, Symbol_46 = 612, Symbol_47 = 613, Symbol_48 = 616, Symbol_49 = 618, Symbol_50 = 619, Symbol_51 = 621, Symbol_52 = 622, Symbol_53 = 623, Symbol_54 = 626, Symbol_55 = 627, Symbol_56 = 630, Symbol_57 = 633, Symbol_58 = 636, Symbol_59 = 639, Symbol_60 = 642, Symbol_61 = 645, Symbol_62 = 646, Symbol_63 = 648, Symbol_64 = 649, Symbol_65 = 652, Symbol_66 = 653, Symbol_67 = 655, Symbol_68 = 657, Symbol_69 = 660, Symbol_70 = 663, Symbol_71 = 665, Symbol_72 = 666, Symbol_73 = 667, Symbol_74 = 668, Symbol_75 = 671, Symbol_76 = 672, Symbol_77 = 673, Symbol_78 = 674, Symbol_79 = 676, Symbol_80 = 679, Symbol_81 = 682, Symbol_82 = 683, Symbol_83 = 685, Symbol_84 = 687, Symbol_85 = 690, Symbol_86 = 691, Symbol_87 = 693, Symbol_88 = 694, Symbol_89 = 696, Symbol_90 = 699, Symbol_91 = 700, Symbol_92 = 703, Symbol_93 = 706, Symbol_94 = 709, Symbol_95 = 710, Symbol_96 = 712, Symbol_97 = 713, Symbol_98 = 716, Symbol_99 = 719, Symbol_100 = 720, Symbol_101 = 723, Symbol_102 = 724, Symbol_103 = 727, Symbol_104 = 729, Symbol_105 = 732, Symbol_106 = 735, Symbol_107 = 736, Symbol_108 = 738, Symbol_109 = 740, Symbol_110 = 742, Symbol_111 = 743, Symbol_112 = 745, Symbol_113 = 748, Symbol_114 = 750, Symbol_115 = 753, Symbol_116 = 754, Symbol_117 = 755, Symbol_118 = 757, Symbol_119 = 760, Symbol_120 = 762, Symbol_121 = 763, Symbol_122 = 765, Symbol_123 = 766, Symbol_124 = 768, Symbol_125 = 771, Symbol_126 = 772, Symbol_127 = 774, Symbol_128 = 776, Symbol_129 = 779, Symbol_130 = 780, Symbol_131 = 782, Symbol_132 = 785, Symbol_133 = 786, Symbol_134 = 788, Symbol_135 = 791, Symbol_136 = 792, Symbol_137 = 795, Symbol_138 = 797, Symbol_139 = 799, Symbol_140 = 800, Symbol_141 = 802, Symbol_142 = 805, Symbol_143 = 808, Symbol_144 = 811, Symbol_145 = 813, Symbol_146 = 814, Symbol_147 = 817, Symbol_148 = 820, Symbol_149 = 823, Symbol_150 = 825, Symbol_151 = 827, Symbol_152 = 830, Symbol_153 = 832, Symbol_154 = 835, Symbol_155 = 838, Symbol_156 = 840, Symbol_157 = 841, Symbol_158 = 843, Symbol_159 = 846, Symbol_160 = 849, Symbol_161 = 852, Symbol_162 = 855, Symbol_163 = 858, Symbol_164 = 860, Symbol_165 = 861, Symbol_166 = 862, Symbol_167 = 865, Symbol_168 = 867, Symbol_169 = 868, Symbol_170 = 869, Symbol_171 = 871, Symbol_172 = 872, Symbol_173 = 875, Symbol_174 = 876, Symbol_175 = 879, Symbol_176 = 882, Symbol_177 = 883, Symbol_178 = 886, Symbol_179 = 887, Symbol_180 = 889, Symbol_181 = 890, Symbol_182 = 891, Symbol_183 = 894, Symbol_184 = 897, Symbol_185 = 898, Symbol_186 = 899, Symbol_187 = 902, Symbol_188 = 905, Symbol_189 = 906, Symbol_190 = 908, Symbol_191 = 909, Symbol_192 = 911, Symbol_193 = 914, Symbol_194 = 916, Symbol_195 = 918, Symbol_196 = 921, Symbol_197 = 924, Symbol_198 = 926, Symbol_199 = 927, Symbol_200 = 930, Symbol_201 = 932, Symbol_202 = 933, Symbol_203 = 936, Symbol_204 = 937, Symbol_205 = 938, Symbol_206 = 939, Symbol_207 = 942, Symbol_208 = 944, Symbol_209 = 946, Symbol_210 = 949, Symbol_211 = 952, Symbol_212 = 955, Symbol_213 = 957, Symbol_214 = 960, Symbol_215 = 961, Symbol_216 = 964, Symbol_217 = 965, Symbol_218 = 966, Symbol_219 = 967, Symbol_220 = 970, Symbol_221 = 971, Symbol_222 = 972, Symbol_223 = 975, Symbol_224 = 978, Symbol_225 = 980, Symbol_226 = 983, Symbol_227 = 986, Symbol_228 = 988, Symbol_229 = 990, Symbol_230 = 992, Symbol_231 = 993, Symbol_232 = 996, Symbol_233 = 997, Symbol_234 = 1000, Symbol_235 = 1001, Symbol_236 = 1002, Symbol_237 = 1005, Symbol_238 = 1007, Symbol_239 = 1009, Symbol_240 = 1012, Symbol_241 = 1013, Symbol_242 = 1015, Symbol_243 = 1016, Symbol_244 = 1018, Symbol_245 = 1021, Symbol_246 = 1022, Symbol_247 = 1024, Symbol_248 = 1026, Symbol_249 = 1029, Symbol_250 = 1032, Symbol_251 = 1034, Symbol_252 = 1035, Symbol_253 = 1038, Symbol_254 = 1040, Symbol_255 = 1041, Symbol_256 = 1044, Symbol_257 = 1046, Symbol_258 = 1047, Symbol_259 = 1048, Symbol_260 = 1049, Symbol_261 = 1052, Symbol_262 = 1054, Symbol_263 = 1057, Symbol_264 = 1059, Symbol_265 = 1061, Symbol_266 = 1062, Symbol_267 = 1063, Symbol_268 = 1064, Symbol_269 = 1066, Symbol_270 = 1069, Symbol_271 = 1071, Symbol_272 = 1073, Symbol_273 = 1076, Symbol_274 = 1079, Symbol_275 = 1082, Symbol_276 = 1085, Symbol_277 = 1087, Symbol_278 = 1088, Symbol_279 = 1090, Symbol_280 = 1091, Symbol_281 = 1094, Symbol_282 = 1096, Symbol_283 = 1098, Symbol_284 = 1099, Symbol_285 = 1101, Symbol_286 = 1104, Symbol_287 = 1106, Symbol_288 = 1109, Symbol_289 = 1112 });
}

mod s30 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<u16>, field_1: i64 });
    record!(message Record1 Record1View "Record1" { field_0: Enum0, field_1: u16, field_2: u64, field_3: u8, field_4: i16, field_5: f32, field_6: u64, field_7: i64, field_8: i8, field_9: TimeOfDay, field_10: i8 });
    record!(Record2 Record2View "sample.market_2.Record2" {  });
    record!(message Record3 Record3View "Record3" { field_0: Option<TimeOfDay>, field_1: Fixed<9>, field_2: Option<char>, field_3: f64, field_4: Option<bool>, field_5: Option<TimeOfDay>, field_6: Binary, field_7: Vec<Option<u8>>, field_8: Option<Decimal64> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -367, Symbol_1 = -364, Symbol_2 = -362, Symbol_3 = -360, Symbol_4 = -359, Symbol_5 = -358, Symbol_6 = -356, Symbol_7 = -355, Symbol_8 = -354 });
}

mod s31 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Enum2, field_1: bool, field_2: Binary });
    record!(message Record1 Record1View "Record1" {  });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 705, Symbol_1 = 706, Symbol_2 = 709 });
}

mod s32 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<bool>, field_1: Option<i8>, field_2: Option<i16>, field_3: Option<i32>, field_4: i64, field_5: u8, field_6: Option<u16>, field_7: u32, field_8: u64, field_9: Option<f32>, field_10: f64, field_11: Decimal64, field_12: Fixed<12>, field_13: Timestamp, field_14: TimeOfDay, field_15: char, field_16: Ascii<6>, field_17: String, field_18: Binary, field_19: Enum1, field_20: Vec<Record2>, field_21: Option<Box<Union0>> });
    record!(message Record1 Record1View "Record1" { field_0: Option<Fixed<12>>, field_1: Vec<Binary>, field_2: bool, field_3: i16, field_4: i16, field_5: Option<i64> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: char, field_1: u8, field_2: char, field_3: Option<i64> });
    enumeration!(Enum1 "Enum1" { Symbol_0 = 226, Symbol_1 = 228 });
    union!(Union0 Union0View { Record1, Record2, Record0 });
}

mod s33 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Binary, field_1: Option<Ascii<15>>, field_2: Option<Fixed<14>>, field_3: Fixed<15>, field_4: Option<u64>, field_5: Ascii<3>, field_6: i32 });
    record!(message Record1 Record1View "Record1" { field_0: Timestamp, field_1: Option<TimeOfDay>, field_2: Binary, field_3: Binary });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Decimal64, field_1: Fixed<6>, field_2: Ascii<15>, field_3: Option<Binary>, field_4: Option<i16>, field_5: Option<i16>, field_6: u8, field_7: Fixed<15>, field_8: u8, field_9: bool, field_10: f32 });
    record!(Record3 Record3View "Record3" { field_0: Binary, field_1: f32, field_2: Vec<Option<i64>>, field_3: Option<u8>, field_4: Option<i64>, field_5: Option<Box<Union0>>, field_6: u64, field_7: Option<i32> });
    record!(Record4 Record4View "Record4" { field_0: Option<i16>, field_1: Option<i32> });
    record!(message Record5 Record5View "sample.market_5.Record5" { field_0: Option<TimeOfDay>, field_1: bool, field_2: TimeOfDay, field_3: Fixed<6> });
    union!(Union0 Union0View { Record2, Record3, Record4 });
}

mod s34 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: f32, field_1: Option<Box<Union0>>, field_2: Option<Decimal64>, field_3: Fixed<7>, field_4: Ascii<7>, field_5: Option<char> });
    record!(message Record1 Record1View "Record1" { field_0: Vec<Binary>, field_1: Vec<Option<Binary>> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Record0, field_1: f64 });
    record!(Record3 Record3View "Record3" {  });
    record!(message Record4 Record4View "Record4" { field_0: Vec<Option<Timestamp>>, field_1: Option<Binary>, field_2: u16, field_3: Timestamp, field_4: Vec<Option<i16>>, field_5: u16 });
    union!(Union0 Union0View { Record3, Record4 });
}

mod s35 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<Decimal64>, field_1: f32, field_2: Decimal64, field_3: u8, field_4: Fixed<10>, field_5: Vec<u64>, field_6: Option<String>, field_7: Option<Timestamp>, field_8: Binary, field_9: u64, field_10: u64 });
}

mod s36 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: i8, field_2: Option<i16>, field_3: Option<i32>, field_4: i64, field_5: u8, field_6: Option<u16>, field_7: u32, field_8: u64, field_9: f32, field_10: Option<f64>, field_11: Option<Decimal64>, field_12: Option<Fixed<9>>, field_13: Timestamp, field_14: Option<TimeOfDay>, field_15: char, field_16: Ascii<15>, field_17: Option<String>, field_18: Binary, field_19: Enum3, field_20: Option<Vec<Option<Timestamp>>>, field_21: Option<Box<Record0>>, field_22: String, field_23: Option<i8>, field_24: Timestamp, field_25: Option<bool>, field_26: i8, field_27: Option<i16> });
    enumeration!(Enum3 "Enum3" { Symbol_0 = -72, Symbol_1 = -69, Symbol_2 = -68, Symbol_3 = -67, Symbol_4 = -64, Symbol_5 = -63, Symbol_6 = -61, Symbol_7 = -58, Symbol_8 = -55, Symbol_9 = -52, Symbol_10 = -49 });
}

mod s37 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<u64>, field_1: i32, field_2: TimeOfDay, field_3: u32, field_4: String, field_5: Binary, field_6: bool });
    record!(message Record1 Record1View "Record1" { field_0: u16, field_1: Option<Ascii<10>> });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: f64, field_1: Option<i32> });
    record!(message Record3 Record3View "Record3" { field_0: Option<u64>, field_1: Timestamp, field_2: u64, field_3: Option<String> });
    record!(Record4 Record4View "Record4" { field_0: Vec<Option<i8>>, field_1: u16, field_2: i8, field_3: Binary, field_4: Decimal64, field_5: Option<String>, field_6: char, field_7: Option<TimeOfDay>, field_8: i16, field_9: Option<Ascii<5>> });
}

mod s38 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<u64>, field_1: Option<u16>, field_2: bool, field_3: Option<TimeOfDay>, field_4: Option<String>, field_5: Enum2 });
    record!(Record1 Record1View "Record1" { field_0: i8, field_1: Option<u16>, field_2: u32 });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<u64>, field_1: char, field_2: i8, field_3: char, field_4: Vec<Option<bool>>, field_5: i64 });
    record!(Record3 Record3View "Record3" { field_0: char, field_1: Timestamp, field_2: Option<u64>, field_3: Option<i64>, field_4: Enum3, field_5: u32, field_6: u64, field_7: i8 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 916, Symbol_1 = 918, Symbol_2 = 921, Symbol_3 = 922, Symbol_4 = 923, Symbol_5 = 925, Symbol_6 = 926, Symbol_7 = 929 });
    enumeration!(Enum3 "Enum3" { Symbol_0 = 629, Symbol_1 = 631, Symbol_2 = 632, Symbol_3 = 633, Symbol_4 = 636, Symbol_5 = 637, Symbol_6 = 639, Symbol_7 = 640, Symbol_8 = 643, Symbol_9 = 645, Symbol_10 = 646, Symbol_11 = 648 });
}

mod s39 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<i8>, field_1: Ascii<12>, field_2: Timestamp, field_3: Option<u8>, field_4: TimeOfDay, field_5: Binary, field_6: Option<Box<Record5>>, field_7: Option<Box<Record1>>, field_8: u64, field_9: f64 });
    record!(Record1 Record1View "Record1" { field_0: Vec<Binary> });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Fixed<14>, field_1: Option<Fixed<13>>, field_2: u64, field_3: Enum1, field_4: Option<Fixed<9>>, field_5: u64, field_6: Enum2, field_7: i16 });
    record!(message Record3 Record3View "Record3" { field_0: Option<Box<Union0>>, field_1: i64, field_2: char, field_3: i16, field_4: Option<Vec<u64>>, field_5: Enum1, field_6: String, field_7: Option<u16>, field_8: f32, field_9: Option<Box<Record3>> });
    record!(Record4 Record4View "Record4" { field_0: f32, field_1: bool, field_2: Fixed<9> });
    record!(message Record5 Record5View "sample.market_5.Record5" { field_0: i32 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = -958 });
    enumeration!(Enum2 "sample.market_2.Enum2" { Symbol_0 = 38, Symbol_1 = 40, Symbol_2 = 41, Symbol_3 = 44, Symbol_4 = 45, Symbol_5 = 46, Symbol_6 = 49, Symbol_7 = 50 });
    union!(Union0 Union0View { Record3, Record4, Record5 });
}

mod s40 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<bool>, field_1: i8, field_2: i16, field_3: i32, field_4: i64, field_5: u8, field_6: u16, field_7: Option<u32>, field_8: Option<u64>, field_9: f32, field_10: f64, field_11: Option<Decimal64>, field_12: Fixed<17>, field_13: Timestamp, field_14: TimeOfDay, field_15: char, field_16: Option<Ascii<16>>, field_17: Option<String>, field_18: Binary, field_19: Enum0, field_20: Vec<TimeOfDay>, field_21: Option<Box<Union0>>, field_22: i32, field_23: Option<i8>, field_24: Option<i16>, field_25: Binary, field_26: Decimal64, field_27: u64, field_28: i16, field_29: Timestamp });
    record!(message Record1 Record1View "Record1" { field_0: Option<u8>, field_1: u8, field_2: Fixed<8>, field_3: Decimal64, field_4: Option<Binary>, field_5: f32, field_6: u8, field_7: Vec<Ascii<9>>, field_8: Option<Fixed<3>>, field_9: Option<u8> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -929, Symbol_1 = -927, Symbol_2 = -925, Symbol_3 = -923, Symbol_4 = -921, Symbol_5 = -918, Symbol_6 = -916, Symbol_7 = -914 });
    union!(Union0 Union0View { Record1, Record0 });
}

mod s41 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<i64>, field_1: Option<char>, field_2: Option<i16>, field_3: Option<i8>, field_4: u16, field_5: Decimal64 });
}

mod s42 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: Option<TimeOfDay>, field_2: Option<Ascii<1>>, field_3: f64, field_4: i32 });
    record!(message Record1 Record1View "Record1" { field_0: Option<Ascii<5>>, field_1: u32, field_2: Option<Fixed<7>>, field_3: i8, field_4: f32 });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: Option<bool>, field_1: u64, field_2: Enum0, field_3: i8, field_4: Option<TimeOfDay>, field_5: i16, field_6: u32 });
    record!(Record3 Record3View "Record3" { field_0: Option<Box<Union0>>, field_1: u16, field_2: Vec<u8>, field_3: Timestamp, field_4: Option<u8>, field_5: u64, field_6: TimeOfDay, field_7: Option<Timestamp>, field_8: Option<String>, field_9: TimeOfDay });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -312, Symbol_1 = -311, Symbol_2 = -308, Symbol_3 = -307 });
    union!(Union0 Union0View { Record3, Record0 });
}

mod s43 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: u64, field_1: i8, field_2: Option<bool>, field_3: Decimal64, field_4: Option<i8>, field_5: Option<Box<Union0>>, field_6: i64, field_7: Option<Vec<Option<char>>>, field_8: i8, field_9: i16, field_10: String });
    record!(Record1 Record1View "Record1" { field_0: Ascii<5>, field_1: i32, field_2: u8, field_3: Option<i64>, field_4: Option<bool>, field_5: Option<f32> });
    union!(Union0 Union0View { Record1, Record0 });
}

mod s44 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: i8, field_2: i16, field_3: Option<i32>, field_4: i64, field_5: Option<u8>, field_6: u16, field_7: u32, field_8: u64, field_9: f32, field_10: f64, field_11: Option<Decimal64>, field_12: Option<Fixed<9>>, field_13: Timestamp, field_14: TimeOfDay, field_15: char, field_16: Ascii<12>, field_17: Option<String>, field_18: Binary, field_19: Option<Enum1>, field_20: Option<Vec<f64>>, field_21: Option<Box<Record0>>, field_22: Decimal64, field_23: Option<char>, field_24: bool, field_25: Vec<Option<u32>>, field_26: bool, field_27: TimeOfDay, field_28: char });
    record!(Record1 Record1View "Record1" { field_0: i16, field_1: f64, field_2: f32 });
    enumeration!(Enum1 "Enum1" { Symbol_0 = 11, Symbol_1 = 14, Symbol_2 = 15, Symbol_3 = 16, Symbol_4 = 17, Symbol_5 = 18 });
}

mod s45 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<String>, field_1: i8, field_2: f64, field_3: Option<TimeOfDay>, field_4: Option<Box<Union0>>, field_5: u8 });
    record!(Record1 Record1View "Record1" {  });
    record!(message Record2 Record2View "sample.market_2.Record2" { field_0: f32, field_1: Option<f64>, field_2: Option<String>, field_3: bool, field_4: Option<bool>, field_5: i16, field_6: Option<i32>, field_7: u32 });
    record!(Record3 Record3View "Record3" { field_0: u16, field_1: i16, field_2: Option<f64>, field_3: Vec<Binary>, field_4: TimeOfDay, field_5: Option<f64>, field_6: Enum3, field_7: char, field_8: Decimal64 });
    record!(message Record4 Record4View "Record4" { field_0: char, field_1: i16, field_2: Option<u64>, field_3: i8, field_4: char, field_5: Ascii<12>, field_6: Option<u64>, field_7: Binary, field_8: Option<String> });
    enumeration!(Enum3 "Enum3" { Symbol_0 = -251, Symbol_1 = -249, Symbol_2 = -247, Symbol_3 = -245, Symbol_4 = -243, Symbol_5 = -241, Symbol_6 = -239, Symbol_7 = -236, Symbol_8 = -234, Symbol_9 = -231 });
    union!(Union0 Union0View { Record4, Record0, Record1 });
}

mod s46 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<u8>, field_1: i32, field_2: Option<u32>, field_3: Option<Vec<Option<Vec<char>>>> });
}

mod s47 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Option<Ascii<6>>, field_1: u16, field_2: i16, field_3: Fixed<10>, field_4: Option<Binary>, field_5: i16 });
    record!(message Record1 Record1View "Record1" { field_0: u16, field_1: Decimal64 });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Option<u32>, field_1: Binary, field_2: Vec<Timestamp>, field_3: u64, field_4: String, field_5: Option<u16>, field_6: u8, field_7: Enum1, field_8: Ascii<6>, field_9: Option<Fixed<1>> });
    enumeration!(Enum1 "Enum1" { Symbol_0 = 599, Symbol_1 = 602, Symbol_2 = 603, Symbol_3 = 604, Symbol_4 = 606, Symbol_5 = 607, Symbol_6 = 609 });
}

mod s48 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: bool, field_1: i8, field_2: i16, field_3: Option<i32>, field_4: i64, field_5: u8, field_6: Option<u16>, field_7: Option<u32>, field_8: u64, field_9: Option<f32>, field_10: Option<f64>, field_11: Decimal64, field_12: Option<Fixed<1>>, field_13: Timestamp, field_14: Option<TimeOfDay>, field_15: Option<char>, field_16: Option<Ascii<8>>, field_17: String, field_18: Binary, field_19: Enum0, field_20: Vec<TimeOfDay>, field_21: Option<Box<Record1>>, field_22: u16, field_23: Fixed<14>, field_24: i16, field_25: char, field_26: Option<u16>, field_27: Option<Box<Union0>>, field_28: f32, field_29: u64, field_30: Option<i8>, field_31: u64, field_32: Option<Decimal64> });
    record!(Record1 Record1View "Record1" { field_0: Ascii<10>, field_1: Option<bool> });
    enumeration!(Enum0 "Enum0" { Symbol_0 = -124, Symbol_1 = -123, Symbol_2 = -122, Symbol_3 = -120, Symbol_4 = -118, Symbol_5 = -117, Symbol_6 = -116 });
    union!(Union0 Union0View { Record0, Record1 });
}

mod s49 {
    use super::*;
    record!(message Record0 Record0View "Record0" { field_0: Vec<Option<Timestamp>> });
    record!(message Record1 Record1View "Record1" { field_0: Option<u32>, field_1: u8, field_2: f64, field_3: Decimal64, field_4: Option<Enum0>, field_5: char, field_6: u32, field_7: Option<Ascii<6>>, field_8: String });
    record!(Record2 Record2View "sample.market_2.Record2" { field_0: Timestamp });
    record!(message Record3 Record3View "Record3" { field_0: u16, field_1: f64, field_2: Option<Enum0>, field_3: Option<f64>, field_4: i64, field_5: f32, field_6: Option<u16>, field_7: f64, field_8: u16 });
    record!(Record4 Record4View "Record4" { field_0: i16, field_1: Enum0 });
    enumeration!(Enum0 "Enum0" { Symbol_0 = 747, Symbol_1 = 748, Symbol_2 = 751, Symbol_3 = 754, Symbol_4 = 757, Symbol_5 = 759, Symbol_6 = 760, Symbol_7 = 763, Symbol_8 = 764, Symbol_9 = 765, Symbol_10 = 767 });
}

pub const CODECS: &[&[Codec]] = &[
    &[codec::<s0::Record0>()],
    &[codec::<s1::Record0>(), codec::<s1::Record1>()],
    &[codec::<s2::Record0>(), codec::<s2::Record1>(), codec::<s2::Record2>(), codec::<s2::Record3>(), codec::<s2::Record4>(), codec::<s2::Record5>()],
    &[codec::<s3::Record0>(), codec::<s3::Record1>(), codec::<s3::Record2>()],
    &[codec::<s4::Record0>()],
    &[codec::<s5::Record0>()],
    &[codec::<s6::Record0>(), codec::<s6::Record1>(), codec::<s6::Record2>(), codec::<s6::Record3>(), codec::<s6::Record4>()],
    &[codec::<s7::Record0>()],
    &[codec::<s8::Record0>(), codec::<s8::Record1>(), codec::<s8::Record2>()],
    &[codec::<s9::Record0>()],
    &[codec::<s10::Record0>(), codec::<s10::Record1>(), codec::<s10::Record2>(), codec::<s10::Record3>(), codec::<s10::Record4>()],
    &[codec::<s11::Record0>(), codec::<s11::Record1>(), codec::<s11::Record2>(), codec::<s11::Record3>(), codec::<s11::Record4>(), codec::<s11::Record5>()],
    &[codec::<s12::Record0>(), codec::<s12::Record1>(), codec::<s12::Record2>(), codec::<s12::Record3>(), codec::<s12::Record4>(), codec::<s12::Record5>()],
    &[codec::<s13::Record0>(), codec::<s13::Record1>(), codec::<s13::Record2>(), codec::<s13::Record3>(), codec::<s13::Record4>(), codec::<s13::Record5>()],
    &[codec::<s14::Record0>(), codec::<s14::Record1>(), codec::<s14::Record2>(), codec::<s14::Record3>()],
    &[codec::<s15::Record0>(), codec::<s15::Record1>(), codec::<s15::Record2>()],
    &[codec::<s16::Record0>(), codec::<s16::Record1>(), codec::<s16::Record2>(), codec::<s16::Record3>()],
    &[codec::<s17::Record0>(), codec::<s17::Record1>(), codec::<s17::Record2>(), codec::<s17::Record3>(), codec::<s17::Record4>(), codec::<s17::Record5>()],
    &[codec::<s18::Record0>(), codec::<s18::Record1>(), codec::<s18::Record2>(), codec::<s18::Record3>(), codec::<s18::Record4>(), codec::<s18::Record5>()],
    &[codec::<s19::Record0>(), codec::<s19::Record1>(), codec::<s19::Record2>(), codec::<s19::Record3>(), codec::<s19::Record4>(), codec::<s19::Record5>()],
    &[codec::<s20::Record0>()],
    &[codec::<s21::Record0>(), codec::<s21::Record1>(), codec::<s21::Record2>(), codec::<s21::Record3>()],
    &[codec::<s22::Record0>(), codec::<s22::Record1>(), codec::<s22::Record2>(), codec::<s22::Record3>(), codec::<s22::Record4>(), codec::<s22::Record5>()],
    &[codec::<s23::Record0>(), codec::<s23::Record1>(), codec::<s23::Record2>()],
    &[codec::<s24::Record0>(), codec::<s24::Record1>(), codec::<s24::Record2>()],
    &[codec::<s25::Record0>(), codec::<s25::Record1>(), codec::<s25::Record2>()],
    &[codec::<s26::Record0>(), codec::<s26::Record1>(), codec::<s26::Record2>()],
    &[codec::<s27::Record0>(), codec::<s27::Record1>()],
    &[codec::<s28::Record0>(), codec::<s28::Record1>(), codec::<s28::Record2>(), codec::<s28::Record3>()],
    &[codec::<s29::Record0>(), codec::<s29::Record1>(), codec::<s29::Record2>()],
    &[codec::<s30::Record0>(), codec::<s30::Record1>(), codec::<s30::Record2>(), codec::<s30::Record3>()],
    &[codec::<s31::Record0>(), codec::<s31::Record1>()],
    &[codec::<s32::Record0>(), codec::<s32::Record1>(), codec::<s32::Record2>()],
    &[codec::<s33::Record0>(), codec::<s33::Record1>(), codec::<s33::Record2>(), codec::<s33::Record3>(), codec::<s33::Record4>(), codec::<s33::Record5>()],
    &[codec::<s34::Record0>(), codec::<s34::Record1>(), codec::<s34::Record2>(), codec::<s34::Record3>(), codec::<s34::Record4>()],
    &[codec::<s35::Record0>()],
    &[codec::<s36::Record0>()],
    &[codec::<s37::Record0>(), codec::<s37::Record1>(), codec::<s37::Record2>(), codec::<s37::Record3>(), codec::<s37::Record4>()],
    &[codec::<s38::Record0>(), codec::<s38::Record1>(), codec::<s38::Record2>(), codec::<s38::Record3>()],
    &[codec::<s39::Record0>(), codec::<s39::Record1>(), codec::<s39::Record2>(), codec::<s39::Record3>(), codec::<s39::Record4>(), codec::<s39::Record5>()],
    &[codec::<s40::Record0>(), codec::<s40::Record1>()],
    &[codec::<s41::Record0>()],
    &[codec::<s42::Record0>(), codec::<s42::Record1>(), codec::<s42::Record2>(), codec::<s42::Record3>()],
    &[codec::<s43::Record0>(), codec::<s43::Record1>()],
    &[codec::<s44::Record0>(), codec::<s44::Record1>()],
    &[codec::<s45::Record0>(), codec::<s45::Record1>(), codec::<s45::Record2>(), codec::<s45::Record3>(), codec::<s45::Record4>()],
    &[codec::<s46::Record0>()],
    &[codec::<s47::Record0>(), codec::<s47::Record1>(), codec::<s47::Record2>()],
    &[codec::<s48::Record0>(), codec::<s48::Record1>()],
    &[codec::<s49::Record0>(), codec::<s49::Record1>(), codec::<s49::Record2>(), codec::<s49::Record3>(), codec::<s49::Record4>()],
];
