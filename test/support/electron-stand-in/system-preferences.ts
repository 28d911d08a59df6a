/** As `defaults` or a profile of a managed Mac sets them before the app starts, in JSON. */
const userDefaults = new Map<string, unknown>(
  Object.entries(JSON.parse(process.env['ELECTRON_STAND_IN_USER_DEFAULTS'] ?? '{}') as Record<string, unknown>),
)

export const systemPreferences = {
  setUserDefault(key: string, type: 'string' | 'boolean', value: unknown): void {
    if (typeof value !== type) throw new TypeError(`${key} is no ${type}`)
    userDefaults.set(key, value)
  },
  getUserDefault: (key: string, type: 'string' | 'boolean') =>
    userDefaults.get(key) ?? (type === 'string' ? '' : false),
}
