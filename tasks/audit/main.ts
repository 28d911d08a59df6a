import { glob, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { execa } from 'execa'
import { packagesOfApp } from '../package/app/app-build.ts'
import { bundleCommand } from '../package/command-bundle.ts'
import { exceptionsShape, judge } from './judgement.ts'

/**
 * `make audit`: whether an advisory concerns what people install. Everything is bundled, so that npm knows of development dependencies alone;
 * which of them are released the bundles say.
 */
const root = path.join(import.meta.dirname, '../..')
const say = (text: string): void => void process.stdout.write(`${text}\n`)
const exitCodes = { clean: 0, concerned: 1, unknown: 2 } as const

say('building, to see which packages are in it …')
const names = new Set(['electron'])
const work = await mkdtemp(path.join(tmpdir(), 'metalbar-audit-'))
try {
  await execa('npm', ['run', '--silent', 'build', '--', '--logLevel', 'warn'], { cwd: root, stdio: 'inherit' })
  for (const { name } of [...(await bundleCommand(work)).packages, ...(await packagesOfApp(root))]) names.add(name)
} finally {
  await rm(work, { recursive: true, force: true })
}
const exceptions = exceptionsShape.parse(
  JSON.parse(await readFile(path.join(import.meta.dirname, 'exceptions.json'), 'utf8')),
)
// It ends with 1 where it finds anything, in a tool of the tests too.
const { stdout } = await execa('npm', ['audit', '--json'], { cwd: root, reject: false })
const { outcome, lines } = judge({
  printed: stdout,
  bundled: await foldersOf(names),
  exceptions,
  today: new Date().toISOString().slice(0, 10),
})
for (const line of lines) say(line)
process.exitCode = exitCodes[outcome]

/** Also where a package lies below another that needs it in another version. */
async function foldersOf(wanted: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const folders = new Set<string>()
  const patterns = [...wanted].flatMap((name) => [`node_modules/${name}`, `node_modules/**/node_modules/${name}`])
  for await (const folder of glob(patterns, { cwd: root })) folders.add(folder.replaceAll(path.sep, '/'))
  return folders
}
