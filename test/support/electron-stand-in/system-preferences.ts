const userDefaults = new Map<string, unknown>()

export const systemPreferences = {
  setUserDefault(key: string, type: 'string' | 'boolean', value: unknown): void {
    if (typeof value !== type) throw new TypeError(`${key} is no ${type}`)
    userDefaults.set(key, value)
  },
  getUserDefault: (key: string, type: 'string' | 'boolean') =>
    userDefaults.get(key) ?? (type === 'string' ? '' : false),
}
