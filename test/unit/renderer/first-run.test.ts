import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { rightsCommands } from '../../../src/contract/cluster.ts'
import { type ClusterObstacle, obstacleOf } from '../../../src/renderer/first-run.ts'
import { parseYaml } from '../../support/kube-sim/yaml.ts'
import { sampleSnapshot } from '../../support/sample-snapshot.ts'

const { cluster } = sampleSnapshot()

test.for<[state: typeof cluster.state, server: string, obstacle: ClusterObstacle | undefined]>([
  ['live', 'https://lab', undefined],
  ['connecting', '', undefined],
  ['offline', '', 'noContext'],
  ['offline', 'https://lab', 'noAnswer'],
  ['stale', 'https://lab', 'noAnswer'],
  ['absent', 'https://lab', 'noDefinitions'],
  ['denied', 'https://lab', 'noRights'],
  ['unauthorized', 'https://lab', 'noLogin'],
])('a cluster that is %s at "%s" lacks %s', ([state, server, obstacle]) => {
  expect(obstacleOf({ ...cluster, state, server })).toBe(obstacle)
})

const rbac = readFileSync(join(import.meta.dirname, '../../../assets/rbac.yaml'), 'utf8').split('\n---\n')
const commandsOf = (place: Parameters<typeof rightsCommands>[0]) => {
  const { needed, further } = rightsCommands(place)
  return [needed, ...further]
}

test('the rights to copy are those of assets/rbac.yaml, each with what is said of it there', () => {
  const lease = { namespace: 'team', name: 'metalbar-mac' }
  const commands = commandsOf({ context: 'lab', lease }).join('\n')
  const shown = [...commands.matchAll(/<<'EOF'\n([^]*?)\nEOF/g)].map(([, text = '']) => text)
  const [agent = '', ofLease = '', ...further] = shown
  // It knows the name of its Lease, which the file does not.
  const ofAny = ofLease
    .replace('    resourceNames: [metalbar-mac]\n', '')
    .replace('kind: Role', 'kind: ClusterRole')
    .replace('metalbar-mac-lease', 'metalbar-lease')
  expect([agent, ...further, ofAny].map(parseYaml)).toEqual(rbac.map(parseYaml))
  expect(shown.map((text) => text.slice(0, 10))).toEqual(['# Required', ...Array<string>(6).fill('# Optional')])
  expect(commands).toContain(
    `kubectl --context "$ADMIN" --namespace team create rolebinding metalbar-mac-lease --role metalbar-mac-lease --user "$AGENT"`,
  )
})

test('they are given where the agent watches, and only the context of an administrator is to be filled in', () => {
  const bindings = (place: Parameters<typeof rightsCommands>[0]) =>
    commandsOf(place).map((text) => / create (.*binding) /.exec(text)?.[1])
  expect([bindings({ context: 'lab' }), bindings({ context: 'lab', namespace: 'team' })]).toEqual([
    Array(5).fill('clusterrolebinding'),
    [
      ...['--namespace team rolebinding', '--namespace team rolebinding', 'clusterrolebinding'],
      ...['--namespace team rolebinding', '--namespace team rolebinding'],
    ],
  ])
  expect(
    commandsOf({ context: "kim's lab" })[0]
      ?.split('\n')
      .filter((line) => /^[A-Z]+=/.test(line)),
  ).toEqual([
    'ADMIN=context-of-an-administrator',
    `AGENT=$(kubectl --context 'kim'\\''s lab' auth whoami --output jsonpath='{.status.userInfo.username}')`,
  ])
})
