// Reads and writes XML with fast-xml-parser.
// request: {"args":{"xml":"<?xml version=\"1.0\"?><response code=\"00\"><auth>012345</auth><amount currency=\"EUR\">12.50</amount><items><item>1</item><item>two &amp; three</item></items><empty/><![CDATA[raw <b>]]></response>"}}
const { XMLParser, XMLBuilder, XMLValidator } = require('fast-xml-parser');

module.exports = ({ args }) => {
  const parser = new XMLParser({ ignoreAttributes: false, attributeNamePrefix: '@', parseTagValue: false });
  const parsed = parser.parse(args.xml);
  const builder = new XMLBuilder({ ignoreAttributes: false, attributeNamePrefix: '@', format: true });
  return {
    raw: {
      parsed,
      built: builder.build(parsed),
      valid: XMLValidator.validate(args.xml),
      invalid: XMLValidator.validate('<a><b></a>'),
      numbers: new XMLParser().parse('<n><i>12</i><f>1.5</f><s>0x1F</s><b>true</b></n>'),
    },
  };
};
