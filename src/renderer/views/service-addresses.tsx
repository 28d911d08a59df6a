import type { ServiceView } from '../../contract/service.ts'
import { Command } from '../components/command.tsx'
import { CopyButton } from '../components/copy-button.tsx'
import { Sentence } from '../components/sentence.tsx'
import { addressWords } from '../words/services.ts'
import { Card, Facts } from './card.tsx'

/** Where the server is reached: by pods, and from this Mac. */
export function ServiceAddresses({ service: { url, port, address } }: { readonly service: ServiceView }) {
  if (url === undefined && port === undefined) return null
  const local = port === undefined ? undefined : `http://127.0.0.1:${port}`
  return (
    <Card title={addressWords.title}>
      <Facts
        facts={[
          [addressWords.pods, url === undefined ? addressWords.notPublished : <CopyUrl url={url} />],
          ...(address === undefined || port === undefined
            ? []
            : [[addressWords.published, <CopyUrl key="published" url={`http://${address}:${port}`} />] as const]),
          [addressWords.here, local === undefined ? addressWords.notRunning : <CopyUrl url={local} />],
        ]}
      />
      {url !== undefined && (
        <Command text={addressWords.curl(url)} label={addressWords.podsCurl} copyLabel={addressWords.copyPodsCurl} />
      )}
      {local !== undefined && <Command text={addressWords.curl(local)} copyLabel={addressWords.copyCurl} />}
    </Card>
  )
}

const CopyUrl = ({ url }: { readonly url: string }) => (
  <CopyButton text={url} label={addressWords.copy(url)}>
    <Sentence text={url} />
  </CopyButton>
)
