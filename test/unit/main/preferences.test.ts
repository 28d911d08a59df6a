import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { defaultModelStore } from '../../../src/agent-core/models/default-store.ts'
import { parseRunArguments } from '../../../src/cli/run-settings.ts'
import { readPreferences } from '../../../src/main/preferences.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

async function read(preferences?: Readonly<Record<string, unknown>>) {
  await using folder = await temporaryFolder()
  if (preferences) await writeFile(path.join(folder.dir, 'preferences.json'), JSON.stringify(preferences))
  const host = { platform: 'darwin', env: {}, homeDir: '/home/me' } as const
  const result = await readPreferences({ stateDir: folder.dir, ...host })
  const places = { stateDir: folder.dir, modelStore: defaultModelStore(host.platform, host.env, host.homeDir) }
  return { result, withoutFlags: parseRunArguments([], places, '/') }
}

test('without preferences the app starts its agent as metal-agent without flags does, but for the format of its log', async () => {
  const { result, withoutFlags } = await read()
  if (withoutFlags.kind !== 'run' || !result.ok) throw new Error('no settings')
  expect(result.settings).toEqual({ ...withoutFlags.settings, logFormat: 'json' })
})

test('preferences count over the defaults, and null for the namespace means all of them', async () => {
  const given = {
    kubeconfig: '/k',
    context: 'lab',
    hostIp: '192.0.2.10',
    port: 0,
    logLevel: 'debug',
    llamaServer: '/l',
  }
  const { result } = await read({ ...given, namespace: null, llamaServerStartupTimeoutMs: 500, modelStore: '/m' })
  expect(result).toMatchObject({ ok: true, settings: { ...given, startupStallMs: 500, modelStore: '/m' } })
  expect(result.ok && result.settings.namespace).toBeUndefined()
})
