import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type ClusterObstacle, obstacleOf, rightsCommand } from '../../../src/renderer/first-run.ts'
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
])('a cluster that is %s at "%s" lacks %s', ([state, server, obstacle]) => {
  expect(obstacleOf({ ...cluster, state, server })).toBe(obstacle)
})

test('the rights to copy are those that assets/rbac.yaml says an agent needs, where it watches', () => {
  const [needed] = readFileSync(join(import.meta.dirname, '../../../assets/rbac.yaml'), 'utf8').split('\n---\n')
  const everywhere = rightsCommand({ context: 'lab' })
  const role = everywhere.split('<<EOF\n')[1]?.split('\nEOF')[0]
  expect(parseYaml(role ?? '')).toEqual(parseYaml(needed ?? ''))
  expect(
    [everywhere, rightsCommand({ context: 'lab', namespace: 'team' })].map((text) => text.split('\n').at(-1)),
  ).toEqual([
    'kubectl --context ADMIN create clusterrolebinding metalbar-agent --clusterrole metalbar-agent --user USER',
    'kubectl --context ADMIN create --namespace team rolebinding metalbar-agent --clusterrole metalbar-agent --user USER',
  ])
})
