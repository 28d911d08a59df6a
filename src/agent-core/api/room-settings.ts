import { homedir } from 'node:os'
import { join } from 'node:path'
import type { EnergySettings } from '../power/energy.ts'
import type { MemorySettings } from '../memory/memory.ts'
import type { DownloadSettings } from '../models/remote.ts'
import type { PowerSettings } from '../power/power.ts'
import type { GeneralRules, PortPolicy } from '../servers/launch.ts'
import type { OutputLimits } from '../servers/output.ts'
import type { EvictionSettings } from '../reconcile/pressure-eviction.ts'
import type { SpecPolicy } from '../reconcile/runtime-choice.ts'
import type { AgentSettings } from '../settings/settings.ts'

/** What each room takes from the settings of the agent. */

export const launchRules = ({ startupStallMs, drainLimitMs }: AgentSettings): GeneralRules => ({
  startupStallMs,
  drainLimitMs,
  settingNames: { startupStall: '--llama-server-startup-timeout', port: '--llama-server-port or --port-range' },
})

export const memorySettings = (settings: AgentSettings): MemorySettings => ({
  fraction: settings.memoryFraction,
  budgetBytes: settings.memoryBudgetBytes,
  enforcement: settings.memoryCheckMode,
  mayEvict: settings.evictionAtAdmission,
})

export const evictionSettings = (settings: AgentSettings): EvictionSettings => ({
  isEnabled: settings.evictionEnabled,
  share: settings.evictionShare,
  comeBackMs: settings.comeBackMs,
})

export const downloadSettings = (settings: AgentSettings): DownloadSettings => ({
  bytesPerSecond: settings.downloadBytesPerSecond,
  atOnce: settings.downloadsAtOnce,
  reserveBytes: settings.diskReserveBytes,
  partialKeepMs: settings.partialKeepMs,
  hubEndpoint: settings.hubEndpoint,
  hubTokenFile: settings.hubTokenFile,
  caFile: settings.caFile,
  hubLoginNamespaces: settings.hubLoginNamespaces,
})

export const powerSettings = (settings: AgentSettings): PowerSettings => ({
  isEnabled: settings.applePowerEnabled,
  isContinuous: settings.energyLedger,
  intervalMs: settings.applePowerIntervalMs,
  source: settings.powerSource,
  powermetrics: settings.powermetrics,
  macmon: settings.macmon,
})

export const energySettings = (settings: AgentSettings): EnergySettings => ({
  isKept: settings.energyLedger,
  price: { perKwh: settings.energyPricePerKwh, currency: settings.energyCurrency },
})

export const outputLimits = ({ serverLogBytes, serverLogFiles }: AgentSettings): OutputLimits => ({
  bytes: serverLogBytes,
  count: serverLogFiles,
})

export function portPolicy({ llamaServerPort, portRange }: AgentSettings): PortPolicy {
  if (portRange) return { kind: 'range', ...portRange }
  return llamaServerPort > 0 ? { kind: 'fixed', port: llamaServerPort } : { kind: 'ephemeral' }
}

export const specPolicy = (settings: AgentSettings): SpecPolicy => ({
  allowsUnsafe: settings.allowUnsafeExtraArgs,
  allowedEnv: settings.allowedEnv,
  modelRoots: [settings.modelStore, ...settings.allowedModelRoots].map(underHome),
})

/** As a shell reads `~/`. */
const underHome = (path: string): string => (/^~(?=\/|$)/.test(path) ? join(homedir(), path.slice(1)) : path)
