import type { PlistValue } from 'plist'

type Dictionary = Extract<PlistValue, { [key: string]: PlistValue }>

/** Why the app wants what it is not given anyway; every other reason is of Electron's own file, for what Metalbar never asks. */
const ownReasons: ReadonlySet<string> = new Set(['NSLocalNetworkUsageDescription'])

/**
 * Info.plist without what electron-builder and Electron add and the app does not need: loads from any address, and reasons to ask for
 * camera, microphone and the like. Loads from this machine stay, by which the updater gives Squirrel its file.
 */
export function tidied(plist: PlistValue): Dictionary {
  const kept = Object.entries(dictionary(plist)).filter(
    ([key]) => !key.endsWith('UsageDescription') || ownReasons.has(key),
  )
  return Object.fromEntries(
    kept.map(([key, value]) => [key, key === 'NSAppTransportSecurity' ? withoutArbitraryLoads(value) : value]),
  )
}

const withoutArbitraryLoads = (loads: PlistValue): Dictionary =>
  Object.fromEntries(Object.entries(dictionary(loads)).filter(([key]) => key !== 'NSAllowsArbitraryLoads'))

function dictionary(value: PlistValue): Dictionary {
  const isOne = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (isOne && !(value instanceof Date) && !(value instanceof Uint8Array)) return value
  throw new Error('Info.plist is no dictionary as macOS reads it.')
}
