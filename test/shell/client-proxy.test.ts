import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { untilGone } from '../support/agent-world.ts'
import { eventually } from '../support/eventually.ts'
import { freePort } from '../support/free-port.ts'
import { servingWorld } from '../support/serving-world.ts'
import { ShellApp } from '../support/shell-app.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { makeBundle } from '../support/update-world.ts'

const entry = path.join(import.meta.dirname, '../../src/cli/metal-agent.ts')
/** The app's own, or it would have the gateway replaced. */
const stated = `data:text/javascript,globalThis.METAL_AGENT_VERSION=${JSON.stringify(packageJson.version)}`

test('an installed app starts the client proxy from a copy of its command, which needs nothing in the app any longer', async () => {
  await using folder = await temporaryFolder()
  await using world = await servingWorld()
  const bundle = await makeBundle(path.join(folder.dir, 'Applications'), '1.2.3')
  const started = path.join(folder.dir, 'started')
  await writeFile(
    path.join(bundle, 'Contents/Resources/bin/metal-agent'),
    // The command of one file takes the options of its Node.js itself.
    `#!/bin/sh\necho "$0" >> ${started}\ncase "$1" in --node-options=*) shift ;; esac\nexec ${process.execPath} --import '${stated}' ${entry} "$@"\n`,
  )
  const port = await freePort()
  await using app = await ShellApp.start({
    ...{ clientPort: port, kubeconfig: world.sim.kubeconfig(), preferences: world.preferences },
    env: { ELECTRON_STAND_IN_INSTALLED: '1', ELECTRON_STAND_IN_BUNDLE: bundle },
  })
  await app.icon('idle')
  world.apply('tiny')
  await eventually(async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok, { what: 'the client proxy' })
  await rm(bundle, { recursive: true })
  const pid = async () => Number(await readFile(path.join(app.stateDir, 'gateway.pid'), 'utf8'))
  const first = await pid()
  process.kill(first, 'SIGKILL')
  await eventually(async () => (await pid()) !== first && (await fetch(`http://127.0.0.1:${port}/health`)).ok)
  const folderOfCopy = path.join(app.stateDir, 'command')
  const command = path.join(folderOfCopy, 'metal-agent')
  expect([await readdir(folderOfCopy), await readFile(started, 'utf8')]).toEqual([
    ['metal-agent'],
    `${command}\n${command}\n`,
  ])
  const second = await pid()
  await app.quit()
  await untilGone(second)
})
