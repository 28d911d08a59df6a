import { homedir, tmpdir } from 'node:os'
import { main } from '../../../src/cli/main.ts'

/** `metal-agent` as on a Mac, where sudo, visudo and /etc/sudoers.d are in the same places. */
process.exitCode = await main(process.argv.slice(2), {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  platform: 'darwin',
  homeDir: homedir(),
  temporaryDir: tmpdir(),
  cwd: process.cwd(),
  windowFolder: '/no/window',
})
