import { tmpdir } from 'node:os'
import { migrateHere } from '../../../src/cli/migrate.ts'
import type { CliIo } from '../../../src/cli/io.ts'
import { platformOfWorld } from './processes-of-world.ts'
import { sceneVariable, type MigrateScene } from './migrate-scene.ts'

// `metal-agent migrate` as a process of its own, for a Mac that is a folder. It gets each signal of the scene when it says the text of it.
const scene = JSON.parse(process.env[sceneVariable] ?? '') as MigrateScene
const { host, folder, entry, request } = scene
const signals = [...scene.signals]
const io: CliIo = {
  stdout: {
    write: (text) => {
      process.stdout.write(text)
      const [next] = signals
      if (next === undefined || !text.includes(next.at)) return
      signals.shift()
      process.kill(process.pid, next.signal)
    },
  },
  stderr: process.stderr,
  env: host.env,
  platform: 'darwin',
  homeDir: host.user.homeDir,
  temporaryDir: tmpdir(),
  cwd: host.user.homeDir,
  windowFolder: host.user.homeDir,
}
process.argv = [process.execPath, entry]
process.execArgv = []
process.exitCode = await migrateHere(request, io, { host, platform: platformOfWorld(folder) })
