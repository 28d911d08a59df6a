import path from 'node:path'
import { z } from 'zod'
import { defaultModelStore } from '../agent-core/models/default-store.ts'
import { agentSettings, type AgentSettings } from '../agent-core/settings.ts'
import { parseJson, readIfThere } from '../agent-core/support/files.ts'

/** The flags of `metal-agent` that count for the app too; null for `namespace` means all. */
const preferences = z.strictObject({
  ...z
    .object(agentSettings.shape)
    .pick({
      kubeconfig: true,
      context: true,
      inferenceServiceAllowlist: true,
      modelStore: true,
      llamaServer: true,
      llamaServerStartupTimeoutMs: true,
      hostIp: true,
      port: true,
      logLevel: true,
    })
    .partial().shape,
  namespace: z.string().min(1).nullable().optional(),
})

export interface PreferencesFolder {
  readonly stateDir: string
  readonly platform: NodeJS.Platform
  readonly env: NodeJS.ProcessEnv
  readonly homeDir: string
}

export type Preferences =
  | { readonly ok: true; readonly settings: AgentSettings }
  /** Nothing is started then: with other settings than the person's it could claim what it must not. */
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
  const { namespace = 'default', ...given } = parsed.data
  const settings = agentSettings.parse({
    inferenceServiceAllowlist: [],
    modelStore: defaultModelStore(platform, env, homeDir),
    runtime: 'llama-server',
    llamaServerPort: 0,
    llamaServerStartupTimeoutMs: 120_000,
    drainTimeoutMs: 30_000,
    serverLogBytes: 20 * 1024 ** 2,
    serverLogCount: 3,
    port: 9090,
    logLevel: 'info',
    ...given,
    ...(namespace !== null && { namespace }),
    stateDir,
    logFormat: 'json',
    givenByFlags: [],
    flagsNotInEffect: [],
  })
  return { ok: true, settings }
}
