import { expect, test } from 'vitest'
import { windowViews } from '../../../src/contract/app-bridge.ts'
import { fragmentOf, placeOf, targetOf } from '../../../src/main/window/show-target.ts'
import { sampleService, sampleSnapshot } from '../../support/sample-snapshot.ts'

const snapshot = sampleSnapshot({ services: [sampleService({ uid: 'uid-1', namespace: 'team', name: 'qwen' })] })

test.for([
  ['metalbar://open', ''],
  ['metalbar://open/', ''],
  ...windowViews.map((view) => [`metalbar://${view}`, `#${view}`] as const),
  ['metalbar://service/team/qwen', '#service/uid-1'],
  ['metalbar://service/team/qwen/', '#service/uid-1'],
  ['metalbar://service/team/gone', ''],
] as const)('%s turns the window to %j', ([link, fragment]) => {
  const target = targetOf(link)
  expect(target && fragmentOf(placeOf(target, snapshot))).toBe(fragment)
})

test.for([
  '',
  'metalbar:settings',
  'METALBAR://settings',
  'https://settings',
  'metalbar://stop/team/qwen',
  'metalbar://settings/hostAddress',
  'metalbar://settings?hostIp=1.2.3.4',
  'metalbar://settings#x',
  'metalbar://settings/../service/team/qwen',
  'metalbar://user@settings',
  'metalbar://service/team',
  'metalbar://service/team/qwen/stop',
  'metalbar://service/../etc',
  'metalbar://service/team/%71wen',
  'metalbar://service/team/qwen\n',
  'metalbar://service/team/<script>',
  'metalbar://__proto__',
  'metalbar://javascript:alert(1)',
  `metalbar://service/team/${'q'.repeat(500)}`,
])('%j opens nothing', (link) => {
  expect(targetOf(link)).toBeUndefined()
})
