import path from 'node:path'
import { z } from 'zod'
import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { agentSettings, allRows, type AgentSettings } from '../agent-core/settings/settings.ts'
import { parseJson, readIfThere } from '../agent-core/support/files.ts'

const { shape } = agentSettings

/** The flags of `metal-agent` that count for the app too; null for `namespace` means all. */
const preferences = z
  .strictObject({
    kubeconfig: shape.kubeconfig,
    context: shape.context,
    namespace: shape.namespace.nullable().default(allRows.namespace.startsAs),
    inferenceServiceAllowlist: shape.inferenceServiceAllowlist,
    modelStore: shape.modelStore,
    allowedModelRoots: shape.allowedModelRoots,
    allowUnsafeExtraArgs: shape.allowUnsafeExtraArgs,
    allowedEnv: shape.allowedEnv,
    allowedDownloadHosts: shape.allowedDownloadHosts,
    hubLoginNamespaces: shape.hubLoginNamespaces,
    llamaServer: shape.llamaServer,
    llamaServerStartupTimeoutMs: shape.startupStallMs,
    hostIp: shape.hostIp,
    port: shape.port,
    logLevel: shape.logLevel,
  })
  .partial({ modelStore: true })

export interface PreferencesFolder {
  readonly stateDir: string
  readonly platform: NodeJS.Platform
  readonly env: NodeJS.ProcessEnv
  readonly homeDir: string
}

export type Preferences =
  | { readonly ok: true; readonly settings: AgentSettings }
  /** Nothing is started then: with other settings than the person's the agent could claim services it must not. */
  | { readonly ok: false; readonly message: string }

/** What the app's agent is told when it starts: as `metal-agent` without flags, and `preferences.json` of the state folder over it. */
export async function readPreferences({ stateDir, platform, env, homeDir }: PreferencesFolder): Promise<Preferences> {
  const file = path.join(stateDir, 'preferences.json')
  const text = await readIfThere(file)
  const parsed = preferences.safeParse(text === undefined ? {} : parseJson(text))
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const where = issue?.path.join('.') ?? ''
    const what = `${where === '' ? '' : `"${where}" `}${issue?.message ?? 'cannot be used'}`
    return {
      ok: false,
      message: `The preferences ${file} cannot be used: ${what}; repair or remove the file, then start again.`,
    }
  }
  const { namespace, llamaServerStartupTimeoutMs: startupStallMs, ...given } = parsed.data
  const settings = agentSettings.parse({
    modelStore: defaultModelStore(platform, env, homeDir),
    ...given,
    namespace: namespace ?? undefined,
    startupStallMs,
    stateDir,
    logFormat: 'json',
  })
  return { ok: true, settings }
}
