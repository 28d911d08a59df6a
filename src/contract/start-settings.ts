import { z } from 'zod'
import { settingGroups } from './setting-row.ts'

/** Settings that count only as the agent is started with them; what else there is to know of each is in agent-core. */
export const startSettingNames = [
  'context',
  'inferenceServiceAllowlist',
  'modelStore',
  'allowedModelRoots',
  'allowedDownloadHosts',
  'hubLoginNamespaces',
  'runtime',
  'allowUnsafeExtraArgs',
  'allowedEnv',
  'llamaServerPort',
  'portRange',
  'memoryWatchdogIntervalMs',
  'memoryPressureWarning',
  'memoryPressureCritical',
  'hostIp',
  'powermetrics',
  'port',
  'uiPort',
  'metricsAddress',
  'metricsTokenFile',
  'stateDir',
  'logFile',
  'logFileBytes',
  'logFileCount',
  'logFormat',
] as const
export type StartSettingName = (typeof startSettingNames)[number]

/**
 * Where a value comes from. A flag wins over what a person set, since the service manager says it at every start; the start file of the app
 * stands in place of the defaults.
 */
export const settingOrigin = z.enum(['default', 'flag', 'startFile', 'person'])
export type SettingOrigin = z.infer<typeof settingOrigin>

export const maxShownBytes = 1_000
const shown = z.string().max(maxShownBytes)

/** One of them as the agent runs with it. */
export const startSettingView = z.object({
  name: z.enum(startSettingNames),
  group: z.enum(settingGroups),
  /** As people write it; empty where there is none. */
  value: shown,
  from: settingOrigin,
  /** The flag with the value, or with an example where there is none. */
  flag: shown,
  /** The same as a line of the app's start file; absent where that does not take it. */
  line: shown.optional(),
})
export type StartSettingView = z.infer<typeof startSettingView>
