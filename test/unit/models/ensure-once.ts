import { subscribe } from 'node:diagnostics_channel'
import { Models } from '../../../src/agent-core/models/models.ts'
import { silentLog } from '../../support/silent-log.ts'

/** Asks a store once for each source, as a process of its own; prints the paths, and how many connections were begun. */
const [directory = '', ...sources] = process.argv.slice(2)
let connections = 0
subscribe('net.client.socket', () => (connections += 1))
const models = new Models({
  directory,
  log: silentLog,
  env: {},
  homeDir: '/nowhere',
  allowedDownloadHosts: ['127.0.0.1'],
})
models.start()
const { signal } = new AbortController()
const paths: string[] = []
for (const source of sources) {
  paths.push((await models.ensure({ namespace: 'default', name: 'tiny', source }, { signal })).path)
}
await models.view()
await models.stop()
process.stdout.write(JSON.stringify({ paths, connections }))
