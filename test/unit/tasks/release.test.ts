import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { flavourConfig } from '../../../tasks/package/app/flavours.ts'
import { checkFiles, checkVersion, filesOf, ReleaseError, stepsOf } from '../../../tasks/package/release/steps.ts'

const root = path.join(import.meta.dirname, '../../..')
const changelog = '# Changelog\n\n## Unreleased\n\n## 1.2.3 (1 January 2027)\n'

test.each([
  ['v1.2.4', '1.2.3', changelog, 'The tag is v1.2.4, and package.json says 1.2.3.'],
  ['v1.2.3', '1.2.3', '## Unreleased\n', 'CHANGELOG.md has no section 1.2.3'],
  ['v1.2.3', '1.2.3', '## 1.2.30\n', 'CHANGELOG.md has no section 1.2.3'],
  ['v1.2.3-e2e', '1.2.3-e2e', '## 1.2.3-e2e\n', '1.2.3-e2e is no version that can be released.'],
])('a release of the tag %s, version %s, is refused where they disagree', (tag, version, text, why) => {
  expect(() => checkVersion('v1.2.3', '1.2.3', changelog)).not.toThrow()
  expect(() => checkVersion('v1.2.3-beta.1', '1.2.3-beta.1', '## 1.2.3-beta.1\n')).not.toThrow()
  expect(() => checkVersion(tag, version, text)).toThrow(ReleaseError)
  expect(() => checkVersion(tag, version, text)).toThrow(why)
})

test('a release lacks no file, and has none that lets an inspector in', () => {
  const files = filesOf('1.2.3')
  expect(() => checkFiles('1.2.3', files)).not.toThrow()
  expect(() =>
    checkFiles(
      '1.2.3',
      files.filter((name) => name !== 'latest-mac.yml'),
    ),
  ).toThrow('is missing: latest-mac.yml.')
  expect(() => checkFiles('1.2.3', [...files, 'Metalbar-E2E-1.2.3-e2e-arm64.zip'])).toThrow('must not be released')
})

test('each step of the workflow is a step of the script, in its order, after the keys are there', async () => {
  const workflow = await readFile(path.join(root, '.github/workflows/release.yml'), 'utf8')
  const called = [...workflow.matchAll(/run: node tasks\/package\/release\.ts (\w+)$/gm)].map(([, step]) => step)
  expect(called).toEqual(stepsOf('1.2.3').map(({ name }) => name))
  // A tag can be moved to other code; the commit of an action cannot.
  const actions = [...workflow.matchAll(/uses: (\S+)/g)].map(([, action = '']) => action)
  expect(actions.filter((action) => !/@[0-9a-f]{40}$/.test(action))).toEqual([])
  const secrets = [...workflow.matchAll(/secrets\.(\w+)/g)].map(([, name = '']) => name)
  const told = await readFile(path.join(root, 'docs/release.md'), 'utf8')
  expect([...new Set(secrets)].filter((name) => !told.includes(`\`${name}\``))).toEqual([])
})

test('a disk image is signed before Gatekeeper is asked for its signature, which a notarisation does not replace', async () => {
  const config = await readFile(path.join(root, 'electron-builder.yml'), 'utf8')
  const asked = stepsOf('1.2.3').flatMap(({ commands }) => commands)
  expect(asked.filter((command) => command.includes('context:primary-signature'))).toHaveLength(2)
  expect(config).toMatch(/^dmg:\n(?: .*\n)*? {2}sign: true\n/m)
})

test.each(['arm64', 'x64'])('what people download for %s is known to Apple before it is packed or assessed', (arch) => {
  const commands = stepsOf('1.2.3').flatMap((step) => step.commands.map((words) => words.join(' ')))
  const at = (...words: readonly string[]) => commands.findIndex((one) => words.every((word) => one.includes(word)))
  const command = `out/package/metal-agent-darwin-${arch}`
  const image = `out/app/Metalbar-1.2.3-${arch}.dmg`
  const inOrder = [
    at('--build-command', arch),
    at('codesign --sign', '--timestamp --options runtime --entitlements entitlements.plist', `${command}/metal-agent`),
    at('ditto', `${command}.notary.zip`),
    at('notarytool submit', `${command}.notary.zip`, '--wait'),
    at('--check-notarization', `${command}/metal-agent`),
    at('--pack-command', arch),
    at('build-app.ts --signed'),
    at('notarytool submit', image, '--wait'),
    at('stapler staple', image),
    at('spctl', 'context:primary-signature', image),
    at('stapler validate', image),
    at('--collect'),
  ]
  expect([inOrder.includes(-1), inOrder]).toEqual([false, inOrder.toSorted((one, other) => one - other)])
})

test('the tests on Electron drive the package for tests, packed just before, and no Electron that is told which app', () => {
  const commands = stepsOf('1.2.3').find(({ name }) => name === 'electron')?.commands ?? []
  const [pack = [], verify = [], drive = []] = commands
  const program = drive.find((word) => word.startsWith('ELECTRON_PATH='))?.slice('ELECTRON_PATH='.length) ?? ''
  const folder = pack[pack.indexOf('--output') + 1] ?? 'nowhere'
  expect([commands.length, pack.includes('e2e'), drive.slice(-2)]).toEqual([3, true, ['--project', 'electron']])
  expect(program).toBe(`${verify.at(-1)}/Contents/MacOS/${flavourConfig.e2e.productName}`)
  // Where Electron counts an app as installed, so that it offers to move nowhere.
  expect([program.startsWith(`${folder}/`), folder.split('/').includes('Applications')]).toEqual([true, true])
})
