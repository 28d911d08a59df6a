import type { AgentSnapshot } from '../../contract/snapshot.ts'
import { CopyButton } from '../components/copy-button.tsx'
import { LinkGlyph } from '../components/glyph.tsx'
import { Spoken } from '../components/spoken.tsx'
import { useWindow } from '../store.ts'
import { clusterWords, memoryLine } from '../../contract/words.ts'
import styles from './header.module.css'

export function Header({ snapshot: { cluster, host, memory } }: { readonly snapshot: AgentSnapshot }) {
  return (
    <header className={styles['header']}>
      <h1>
        <Spoken>Metalbar</Spoken>
      </h1>
      <div className={styles['connection']}>
        <ConnectionWord state={cluster.state} />
        {cluster.context !== '' && (
          <span className={styles['where']}>
            {cluster.context} / {cluster.namespace ?? 'all namespaces'}
          </span>
        )}
      </div>
      {memory && <span className={styles['where']}>Memory {memoryLine(memory)}</span>}
      {host.address === undefined ? (
        <span className={styles['noAddress']}>No address</span>
      ) : (
        <CopyButton text={host.address} label={`Copy address ${host.address}`}>
          {host.address}
        </CopyButton>
      )}
    </header>
  )
}

function ConnectionWord({ state }: { readonly state: AgentSnapshot['cluster']['state'] }) {
  const gone = useWindow(({ connection }) => connection.state === 'gone')
  return (
    <span role="status" className={styles['state']}>
      <LinkGlyph link={gone ? 'broken' : glyphs[state]} />
      {gone ? 'No agent' : clusterWords[state]}
    </span>
  )
}

const glyphs = {
  live: 'live',
  connecting: 'busy',
  stale: 'stale',
  denied: 'broken',
  absent: 'broken',
  offline: 'broken',
} as const
