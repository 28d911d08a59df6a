export const nativeTheme = { shouldUseDarkColors: false }
