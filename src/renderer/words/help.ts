import type { DoctorSubject, Verdict } from '../../contract/doctor.ts'
import type { Words } from '../../contract/words.ts'

export const helpWords = {
  title: 'Help',
  intro:
    'What keeps a model from being served or reached, and what to do about it. Nothing is changed before you agree.',
  looking: 'Checking this machine and its cluster. This takes up to ten seconds.',
  again: 'Look again',
  toMend: 'Problems',
  allWell: 'No problem was found.',
  inOrder: (count: number) => (count === 1 ? '1 check without a problem' : `${count} checks without a problem`),
  fromCluster: 'Test from inside the cluster',
  fromClusterIntro:
    'Starts a short-lived Pod that calls the model from inside the cluster. Needs permission to create Pods, and the image busybox:1.37; for another one: metal-agent doctor --from-cluster SERVICE --image IMAGE.',
  askPod: 'Test from a Pod',
  askPodFor: (name: string) => `Test from a Pod: ${name}`,
  asking: 'The Pod starts and calls the service. This takes up to a minute.',
  cancel: 'Cancel',
  unserved: (count: number) =>
    count === 1
      ? '1 service that this machine does not serve now'
      : `${count} services that this machine does not serve now`,
  report: 'Report to send',
  reportIntro:
    'For whoever helps you: versions, settings, history, logs and these checks. Tokens, passwords, keys and the path of your home are left out; names of machines and the output of servers are included.',
  reportFiles: 'Files of the report',
  collect: 'Collect…',
  save: 'Save as a zip file',
  discard: 'Discard',
  more: 'Read more',
  less: 'Read less',
  moreAbout: (asks: string) => `Read more: ${asks}`,
  pageMissing: 'The page cannot be read.',
} as const satisfies Words

export const subjectWords = {
  app: 'App',
  agent: 'Agent',
  cluster: 'Cluster',
  machine: 'This machine',
  serving: 'Serving',
} as const satisfies Words<DoctorSubject>

export const verdictWords = {
  pass: 'In order',
  warn: 'Warning',
  fail: 'Failure',
  notApplicable: 'Not applicable',
} as const satisfies Words<Verdict>
