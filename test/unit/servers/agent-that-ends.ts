import { join } from 'node:path'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { launchEnvironment } from '../../../src/agent-core/servers/launch.ts'
import { Ledger } from '../../../src/agent-core/servers/ledger.ts'
import { Servers } from '../../../src/agent-core/servers/servers.ts'
import { sampleScriptArgs, sampleServerPath, type SampleScript } from '../../support/sample-servers/sample.ts'

/**
 * A process that starts one server (of the script it may be given) in the folder it is given, says so once that is ready, and then has
 * nothing left to do; told `killed`, it is killed in the turn of the spawn.
 */
const folder = process.argv[2] ?? ''
const script = JSON.parse(process.argv[3] ?? '{ "noise": { "lines": 1, "everyMs": 20 } }') as SampleScript
const isKilled = process.argv[4] === 'killed'
const ignore = () => undefined
const platform = hostPlatform()
const log = { debug: ignore, info: ignore, warn: ignore, error: ignore }
const servers = new Servers({
  platform,
  log,
  stateDir: folder,
  ledger: new Ledger({ file: join(folder, 'ledger.json'), platform, log }),
})
const keepAlive = setInterval(ignore, 60_000)
servers.onChange((_, state) => {
  if (isKilled && state.kind === 'starting' && state.pid !== undefined) process.kill(process.pid, 'SIGKILL')
  if (state.kind !== 'ready') return
  process.stdout.write(JSON.stringify({ pid: state.pid, logFile: servers.logFileOf('a/b') }))
  clearInterval(keepAlive)
})
servers.start('a/b', {
  uid: 'uid-1',
  digest: 'digest-1',
  executable: sampleServerPath,
  argv: (port) => ['--port', String(port), ...sampleScriptArgs(script)],
  env: launchEnvironment(),
  port: { kind: 'ephemeral' },
})
