import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { checksums } from './archive.ts'
import { packCommand } from './command-archive.ts'
import { buildCommand } from './command.ts'
import { buildNpmPackage } from './npm-package.ts'

const root = path.join(import.meta.dirname, '../..')
const folder = path.join(root, 'out/package')
const name = `metal-agent-${process.platform}-${process.arch}`
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const listed = async (file: string, about = '') =>
  say(`${path.relative(process.cwd(), file)}: ${((await stat(file)).size / 1e6).toFixed(1)} MB${about}`)

/** Says what is being done, and how long it took; what it prints itself is said only where it fails. */
async function step<T>(what: string, work: () => Promise<T>): Promise<T> {
  say(`${what} …`)
  const began = performance.now()
  const result = await work()
  say(`  done in ${((performance.now() - began) / 1_000).toFixed(0)} s`)
  return result
}

/** `make package`: what people install, as far as this machine can build it, in `out/package`. */
await rm(folder, { recursive: true, force: true })
await mkdir(path.join(folder, name), { recursive: true })
const command = path.join(folder, name, 'metal-agent')
const packages = await step('building the self-contained command', () => buildCommand(command))
if (process.platform === 'darwin') await execa('codesign', ['--sign', '-', '--force', command])
const { stdout } = await execa(command, ['--version'], { env: {}, extendEnv: false })
const files = [await step('packing it with its licences', () => packCommand(path.join(folder, name), packages))]
files.push(await step('building the package for npm', () => buildNpmPackage(folder)))

const quietly = { cwd: root, preferLocal: true, all: true } as const
await step('building the app', () =>
  execa('npm', ['run', '--silent', 'build'], { ...quietly, env: { NODE_ENV: undefined } }),
)
await writeFile(path.join(folder, 'SHA256SUMS'), await checksums(files))
if (process.platform === 'darwin') await packApp()
await listed(command, `, runs with nothing beside it: ${stdout.split('\n')[0] ?? ''}`)
for (const file of files) await listed(file)
whatIsLeft()

async function packApp(): Promise<void> {
  const options = ['--arch', process.arch]
  await step('packing the app as disk image and zip', () =>
    execa(process.execPath, ['tasks/package/build-app.ts', ...options], quietly),
  )
  say('out/app: the disk image and the zip, signed for this Mac alone: macOS opens them on no other one.')
}

function whatIsLeft(): void {
  if (process.platform === 'darwin') {
    say('A release, for both kinds of Mac, signed and known to Apple: docs/release.md')
    return
  }
  say('Only a Mac can do the rest (docs/release.md says what each step proves):')
  say(
    '  make package                                  its command, signed for itself alone, the disk image and the zip',
  )
  say('  node tasks/package/release.ts                 a release: signed, known to Apple, tried on Electron itself')
  say('What the app is made of is checked here too:    METALBAR_TEST_LONG=1 npx vitest run --project shell')
}
